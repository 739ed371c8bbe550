//! The package's life under dpkg, in a folder that stands for the root. The binary is `/bin/true`: what the real one does
//! is other tests' business.

use super::*;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("tidegate-dist-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn packed(version: &str, out: &Path) -> (String, PathBuf) {
    let binary = Path::new("/bin/true");
    let release = Release {
        version: version.to_owned(),
        time: "1700000000".to_owned(),
        elf: Elf::read(binary).unwrap(),
    };
    let sums = pack(&crate::root(), &release, binary, out).unwrap();
    (sums, out.join(format!("tidegate_{version}_{}.deb", release.elf.debian)))
}

/// Runs dpkg on a system in `root`. Files belong to root: without its rights fakeroot pretends.
fn dpkg(root: &Path, arguments: &[&str]) {
    let is_root = stdout(Command::new("id").arg("-u")).unwrap().trim() == "0";
    let mut command = Command::new(if is_root { "env" } else { "fakeroot" });
    command.args([
        "dpkg",
        "--force-depends",
        "--force-confold",
        "--force-script-chrootless",
        "--log=/dev/null",
    ]);
    command.arg(format!("--root={}", root.display())).args(arguments);
    stdout(&mut command).unwrap();
}

fn empty_system(root: &Path) {
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let folder = Folder::new("same");
    let (one, _) = packed("1.2.3", &folder.0.join("one"));
    let (other, _) = packed("1.2.3", &folder.0.join("other"));
    assert_eq!(one, other);
    assert_eq!(one.lines().count(), 2, "{one}");
}

#[test]
fn the_package_is_installed_upgraded_removed_and_purged() {
    let folder = Folder::new("dpkg");
    let root = folder.0.join("root");
    empty_system(&root);
    let (_, first) = packed("1.0.0", &folder.0.join("first"));
    let (_, second) = packed("1.0.1", &folder.0.join("second"));
    let exists = |path: &str| root.join(path).exists();
    dpkg(&root, &["--install", first.to_str().unwrap()]);
    for path in ["usr/bin/tidegate", "usr/lib/systemd/system/tidegate.service", "etc/logrotate.d/tidegate"] {
        assert!(exists(path), "{path}");
    }
    let config = root.join("etc/tidegate/config.yaml");
    fs::write(&config, "apisix:\n  node_listen: 9999\n").unwrap();
    fs::create_dir_all(root.join("var/lib/tidegate")).unwrap();
    dpkg(&root, &["--install", second.to_str().unwrap()]);
    assert!(fs::read_to_string(&config).unwrap().contains("9999"), "an upgrade keeps the configuration");
    dpkg(&root, &["--remove", "tidegate"]);
    assert!(!exists("usr/bin/tidegate") && config.exists() && exists("var/lib/tidegate"));
    dpkg(&root, &["--purge", "tidegate"]);
    assert!(!config.exists() && !exists("var/lib/tidegate") && !exists("etc/tidegate"));
}

#[test]
fn the_bill_of_materials_names_the_libraries() {
    let release = Release {
        version: "1.0.0".to_owned(),
        time: "0".to_owned(),
        elf: Elf::read(Path::new("/bin/true")).unwrap(),
    };
    let packages = materials::packages(&crate::root()).unwrap();
    let text = materials::sbom(&release, &packages);
    assert!(text.contains("\"purl\": \"pkg:cargo/rustls@"), "{text}");
    assert!(!text.contains("\"stdx\""), "our own crates are the program itself");
    let licenses = materials::licenses(&packages).unwrap();
    assert!(
        licenses.contains("\n  rustls ") && licenses.contains("Permission is hereby granted"),
        "licence texts"
    );
}
