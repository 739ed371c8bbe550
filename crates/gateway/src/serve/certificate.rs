//! The certificate of `tidegate serve`: one that is named, or one that is made and kept, so that a browser is asked to
//! trust it once.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use rcgen::{CertificateParams, DnType, KeyPair};
use stdx::Secret;

/// A chain and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate, with its chain if it has one.
    pub cert: String,
    /// Its key.
    pub key: Secret,
}

/// The file of a certificate that was made; its key is in it too, so that they can't come apart.
const FILE: &str = "self-signed.pem";

/// Reads a certificate and its key.
///
/// # Errors
/// Where one can't be read, or they don't belong together.
pub fn read(cert: &Path, key: &Path) -> anyhow::Result<Pair> {
    let text = |path: &Path| read_pem(path).with_context(|| format!("{} can't be read", path.display()));
    let pair = Pair { cert: text(cert)?, key: text(key)?.into() };
    tls::Identity::from_pem(&pair.cert, &pair.key)
        .with_context(|| format!("{} and {} can't be used", cert.display(), key.display()))?;
    Ok(pair)
}

fn read_pem(path: &Path) -> io::Result<String> {
    stdx::file::read_text(path, stdx::file::CREDENTIALS_BYTES_MAX)
}

/// The certificate kept in `folder`, made for `ip` (and the names of loopback) where there is none that is of use.
///
/// # Errors
/// Where it can't be made or kept.
pub fn kept(folder: &Path, ip: IpAddr) -> anyhow::Result<Pair> {
    let file = folder.join(match ip.is_loopback() || ip.is_unspecified() {
        true => FILE.to_owned(),
        false => format!("{ip}.{FILE}").replace(':', "-"),
    });
    if let Ok(text) = read_pem(&file)
        && tls::Identity::from_pem(&text, &text).is_ok()
    {
        return Ok(Pair { cert: text.clone(), key: text.into() });
    }
    let pair = make(ip)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .and_then(|()| write(&file, &format!("{}{}", pair.cert, pair.key.as_str())))
        .with_context(|| format!("the certificate can't be kept in {}", file.display()))?;
    Ok(pair)
}

/// Where certificates are kept when nobody says where: the user's data folder (XDG Base Directory Specification).
///
/// # Errors
/// Where there is no such folder.
pub fn folder() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("XDG_DATA_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("tidegate"))
        .ok_or_else(|| anyhow!("there is no home directory to keep the certificate in: name a --data-dir"))
}

fn make(ip: IpAddr) -> anyhow::Result<Pair> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for name in [ip.to_string(), host] {
        let usable = !name.is_empty() && name.is_ascii() && !ip.is_unspecified();
        if usable && !names.contains(&name) {
            names.push(name);
        }
    }
    let mut params = CertificateParams::new(names).context("a certificate can't be made")?;
    params.distinguished_name.push(DnType::CommonName, "tidegate serve");
    let key = KeyPair::generate().context("a key can't be made")?;
    let cert = params.self_signed(&key).context("a certificate can't be made")?;
    Ok(Pair { cert: cert.pem(), key: key.serialize_pem().into() })
}

/// Whole or not at all: another `serve` may read it at the same time.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_made_certificate_is_kept_and_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("data");
        let ip = IpAddr::from([127, 0, 0, 1]);
        kept(&home, ip).unwrap();
        let text = fs::read_to_string(home.join(FILE)).unwrap();
        let again = kept(&home, ip).unwrap();
        assert_eq!(again.cert, text);
        tls::Identity::from_pem(&again.cert, &again.key).unwrap();
        assert_eq!(fs::metadata(home.join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(home.join(FILE), "broken").unwrap();
        assert_ne!(kept(&home, ip).unwrap().cert, text);
    }

    #[test]
    fn pairs_that_do_not_belong_together_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let ip = IpAddr::from([127, 0, 0, 1]);
        let (one, other) = (make(ip).unwrap(), make(ip).unwrap());
        let (cert, key) = (folder.path().join("a.crt"), folder.path().join("a.key"));
        fs::write(&cert, &one.cert).unwrap();
        fs::write(&key, one.key.as_bytes()).unwrap();
        assert_eq!(read(&cert, &key).unwrap(), one);
        fs::write(&key, other.key.as_bytes()).unwrap();
        assert!(read(&cert, &key).is_err());
        assert!(read(&cert, Path::new("/none")).unwrap_err().to_string().contains("/none"));
    }
}
