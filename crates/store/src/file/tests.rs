//! The file backend: the common suite on a store that a file feeds, and the file itself.

use std::sync::Arc;

use super::{File, Format};
use crate::suite::{self, Backend, Stage};
use crate::{BoxFuture, Store, StoreError};

struct Files;

impl Backend for Files {
    fn stage(&self) -> BoxFuture<'_, Stage> {
        Box::pin(async {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("apisix.yaml");
            std::fs::write(&path, "#END\n").unwrap();
            let file = File::new(&path, Format::Yaml, Arc::new(|_| None)).unwrap();
            file.reload().await.unwrap();
            let pass = Box::new(move |by| {
                let _ = &directory;
                Box::pin(tokio::time::sleep(by)) as BoxFuture<'static, ()>
            });
            Stage { store: Arc::new(file), pass }
        })
    }
}

#[tokio::test]
async fn behaves_as_every_store_does() {
    suite::run(&Files).await;
}

#[tokio::test]
async fn a_file_that_names_nothing_takes_nothing_away() {
    let directory = tempfile::tempdir().unwrap();
    for (name, format, full, blank, explicit) in [
        (
            "apisix.yaml",
            Format::Yaml,
            "routes:\n  - id: 1\n    uri: /a\n#END\n",
            "# saved soon\n#END\n",
            "routes: []\n#END\n",
        ),
        ("apisix.json", Format::Json, r#"{"routes": [{"id": 1, "uri": "/a"}]}"#, "{}", r#"{"routes": []}"#),
    ] {
        let path = directory.path().join(name);
        let open = || File::new(&path, format, Arc::new(|_| None)).unwrap();
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        let file = open();
        write(full);
        assert_eq!(file.reload().await, Ok(true), "{name}");
        for text in [blank, ""] {
            write(text);
            assert!(matches!(file.reload().await, Err(StoreError::Invalid(_))), "{name}: {text:?}");
            assert_eq!(file.list("").await.unwrap().entries.len(), 1, "{name}: {text:?}");
        }
        write(blank);
        assert!(matches!(open().with_earlier(true).reload().await, Err(StoreError::Invalid(_))), "{name}");
        assert_eq!(open().reload().await, Ok(true), "a first start without resources: {name}");
        write(explicit);
        assert_eq!(file.reload().await, Ok(true), "{name}");
        assert!(file.list("").await.unwrap().entries.is_empty(), "{name}");
        assert_eq!(open().with_earlier(true).reload().await, Ok(true), "{name}");
    }
}

#[tokio::test]
async fn a_change_is_one_revision_and_a_mistake_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("apisix.yaml");
    let file = File::new(&path, Format::Yaml, Arc::new(|_| None)).unwrap();
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    assert!(matches!(file.reload().await, Err(StoreError::Invalid(said)) if said.contains("can't be read")));
    assert!(matches!(file.list("").await, Err(StoreError::Unavailable(_))));
    assert_eq!(file.reload().await, Ok(false), "said once");

    write("routes:\n  - id: 1\n    uri: /a\nupstreams:\n  - id: 1\nplugins:\n  - name: echo\n#END\n");
    assert_eq!(file.reload().await, Ok(true));
    assert_eq!(file.reload().await, Ok(false));
    let first = file.list("").await.unwrap();
    assert_eq!(first.entries.len(), 2);
    assert_eq!(file.place("/routes/1"), Some(format!("{}:2:5", path.display())));
    assert_eq!(file.plugins().borrow().as_ref().map(Vec::len), Some(1));
    let mut watch = file.watch(first.revision + 1).await.unwrap();

    write("routes:\n  - id: 1\n    uri: [\n#END\n");
    let Err(StoreError::Invalid(said)) = file.reload().await else { panic!("it can't be used") };
    assert!(said.contains("apisix.yaml:4:") || said.contains("apisix.yaml:3:"), "{said}");
    assert!(file.error().is_some());
    assert_eq!(file.list("").await.unwrap(), first);

    write("routes:\n  - id: 2\n    uri: /b\nupstreams:\n  - id: 1\n#END\n");
    assert_eq!(file.reload().await, Ok(true));
    let batch = watch.next().await.unwrap();
    assert_eq!(batch.changes.len(), 2, "one route gone, one new, the upstream as it was");
    assert_eq!((file.error(), file.plugins().borrow().clone()), (None, None));
}
