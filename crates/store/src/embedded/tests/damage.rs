//! Damaged and foreign files end in an error that names them, and are left as they are.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::{Embedded, config, open, place};
use crate::{Op, Store, StoreError, Txn};

/// A closed store of 100 entries at `path`, and its bytes.
fn sound_file(path: &Path) -> Vec<u8> {
    let store = open(path);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let put =
            |n: usize| Op::Put { key: format!("/routes/{n}"), value: vec![b'v'; 40 * n].into(), ttl: None };
        store.txn(Txn { then: (0..100).map(put).collect(), ..Txn::default() }).await.unwrap();
        store.put("/routes/1", b"newest".as_slice().into(), None).await.unwrap();
    });
    drop(store);
    fs::read(path).unwrap()
}

fn reopen(path: &Path) -> Result<(), StoreError> {
    Embedded::open(config(path)).map(drop)
}

#[test]
fn files_that_are_no_sound_store_are_refused_and_kept() {
    let (_directory, path) = place();
    let sound = sound_file(&path);
    let zeroed = |from: usize, to: usize| {
        let mut bytes = sound.clone();
        bytes[from..to].fill(0);
        bytes
    };
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("emptied", Vec::new(), "is damaged"),
        ("all zero", vec![0; sound.len()], "is damaged"),
        ("half of it", sound[..sound.len() / 2].to_vec(), "is damaged"),
        ("one page", sound[..4096].to_vec(), "is damaged"),
        ("20 bytes", sound[..20].to_vec(), "is damaged"),
        ("cut in a page", sound[..sound.len() - 100].to_vec(), "is damaged"),
        ("padded", [sound.clone(), vec![0; 100]].concat(), "is damaged"),
        ("both commit slots zeroed", zeroed(64, 320), "is damaged"),
        ("all but the header zeroed", zeroed(4096, sound.len()), "is damaged"),
        ("text", b"routes:\n  - uri: /hello\n#END\n".to_vec(), "is not a configuration store"),
        ("short text", b"re".to_vec(), "is not a configuration store"),
        ("noise", (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect(), "is not"),
    ];
    for (name, bytes, words) in cases {
        fs::write(&path, &bytes).unwrap();
        let message = reopen(&path).expect_err(name).to_string();
        assert!(message.contains(words) && message.contains(path.to_str().unwrap()), "{name}: {message}");
        assert!(message.contains("move it away"), "{name}: {message}");
        assert!(fs::read(&path).unwrap() == bytes, "{name}: the file was changed");
    }
    fs::write(&path, &sound).unwrap();
    reopen(&path).expect("the backup is put back");
}

/// Recovery after a crash writes to the file: not to one that turns out to be damaged.
#[test]
fn what_a_crash_left_is_recovered_or_kept_as_it_was() {
    let (_directory, path) = place();
    sound_file(&path);
    let store = open(&path);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(store.put("/routes/2", b"after".as_slice().into(), None)).unwrap();
    // What a killed process would have left: it has not been closed.
    let crashed = fs::read(&path).unwrap();
    drop(store);
    for length in [crashed.len() / 2, crashed.len() - 100, crashed.len() / 4096 / 3 * 4096, 4096, 400] {
        let bytes = &crashed[..length];
        fs::write(&path, bytes).unwrap();
        let message = reopen(&path).expect_err("cut off").to_string();
        assert!(message.contains("is damaged") && message.contains("move it away"), "{length}: {message}");
        assert!(fs::read(&path).unwrap() == bytes, "{length}: the file was changed");
    }
    fs::write(&path, &crashed).unwrap();
    let store = open(&path);
    assert_eq!(runtime.block_on(store.list("")).unwrap().revision, 3);
    drop(store);
    reopen(&path).expect("kept sound");
}

#[test]
fn other_programs_and_newer_layouts_are_told_apart() {
    use redb::{Database, TableDefinition};
    let (directory, path) = place();
    sound_file(&path);
    let write = |path: &Path, table: &str, key: &str, value: u64| {
        let database = Database::create(path).unwrap();
        let txn = database.begin_write().unwrap();
        txn.open_table(TableDefinition::<&str, u64>::new(table)).unwrap().insert(key, value).unwrap();
        txn.commit().unwrap();
    };
    write(&path, "meta", "layout", 7);
    let newer = StoreError::Newer { path: path.clone(), found: 7, supported: 1 };
    assert_eq!(reopen(&path).unwrap_err(), newer);
    assert!(newer.to_string().contains("newer version"));

    let other = directory.path().join("other.redb");
    write(&other, "accounts", "ada", 1);
    assert!(matches!(reopen(&other).unwrap_err(), StoreError::Foreign { .. }));
    assert!(matches!(reopen(directory.path()).unwrap_err(), StoreError::Foreign { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    /// A stretch of the file overwritten anywhere: either it is refused, or nothing that was stored is touched.
    #[test]
    fn an_overwritten_stretch_never_changes_an_answer(at in any::<prop::sample::Index>(), length in 1..9000_usize,
                                                     fill in any::<u8>()) {
        static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| { let (_directory, path) = place(); sound_file(&path) });
        let (_directory, path) = place();
        fs::create_dir(path.parent().unwrap()).unwrap();
        let mut bytes = SOUND.clone();
        let at = at.index(bytes.len());
        let end = (at + length).min(bytes.len());
        bytes[at..end].fill(fill);
        fs::write(&path, &bytes).unwrap();
        match Embedded::open(config(&path)) {
            Err(error) => prop_assert!(error.to_string().contains(path.to_str().unwrap())),
            Ok(store) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let listing = runtime.block_on(store.list("")).unwrap();
                prop_assert_eq!(listing.revision, 2);
                prop_assert_eq!(listing.entries.len(), 100);
                for entry in listing.entries {
                    let n: usize = entry.key.rsplit('/').next().unwrap().parse().unwrap();
                    let expected = if n == 1 { b"newest".to_vec() } else { vec![b'v'; 40 * n] };
                    prop_assert_eq!(&*entry.value, &expected[..]);
                }
            }
        }
    }
}
