//! `tidegate serve` and `tidegate import`: a folder or an nginx configuration, served from one command.

use e2e::{Home, Process, binary, eventually, free_ports, own_network};
use serde_json::Value;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The configuration of the HTTPS study; `PORT` and `ROOT` stand for what differs from machine to machine.
const STUDY: &str = r#"
worker_processes 1;  worker_rlimit_nofile 1024;
events { use epoll; accept_mutex off; worker_connections 10240; }
http { access_log off; open_file_cache max=10240000 inactive=60s; open_file_cache_valid 80s; open_file_cache_min_uses 1;
  keepalive_requests 100000000000; keepalive_timeout 300s; sendfile on; tcp_nopush on; tcp_nodelay on; types_hash_max_size 4096;
  include mime.types; default_type application/octet-stream;
  gzip on; gzip_min_length 100; gzip_buffers 8 32k; gzip_types text/plain text/css application/x-javascript text/xml application/xml text/javascript; gzip_vary on;
  server { listen PORT ssl http2; listen [::]:PORT ssl http2; server_name _; root ROOT;
    ssl_certificate server.crt; ssl_certificate_key server.key; ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3;
    ssl_ciphers "AES128+SHA256 !aNULL !eNULL !LOW !3DES !MD5 !EXP !PSK !SRP !DSS !MEDIUM !RC4"; ssl_prefer_server_ciphers on;
    error_page 404 /404.html; location = /40x.html { }  error_page 500 502 503 504 /50x.html; location = /50x.html { } } }
"#;

/// A folder with a page, a text that is worth compressing, and a page for what is not there.
fn site(home: &TempDir) -> String {
    let root = home.path().join("site");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("index.html"), "<p>home</p>").unwrap();
    fs::write(root.join("text.txt"), "many words, many of them often ".repeat(1_700)).unwrap();
    fs::write(root.join("404.html"), "<p>not here</p>").unwrap();
    root.display().to_string()
}

/// The study's configuration in `home`, with a certificate, on `port`.
fn study(home: &TempDir, port: u16) -> String {
    let root = site(home);
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    fs::write(home.path().join("server.crt"), certified.cert.pem()).unwrap();
    fs::write(home.path().join("server.key"), certified.signing_key.serialize_pem()).unwrap();
    fs::write(home.path().join("mime.types"), "types { text/html html; text/plain txt; }").unwrap();
    let text = STUDY.replace("PORT", &port.to_string()).replace("ROOT", &root);
    let file = home.path().join("nginx.conf");
    fs::write(&file, text).unwrap();
    file.display().to_string()
}

/// The gateway's command with these words, in `home`.
fn tidegate(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .args(words)
        .current_dir(home)
        .env_remove("TIDEGATE_DATA_DIR")
        .env("XDG_DATA_HOME", home.join("xdg"));
    command.stdin(Stdio::null());
    command
}

/// A `serve` that listens on a port of its own.
fn serving(home: &TempDir, port: u16, words: &[&str]) -> Process {
    listening(home, port, &[&["serve"], words].concat())
}

/// The gateway, once it listens; what it says goes to the file `said` of `home`.
fn listening(home: &TempDir, port: u16, words: &[&str]) -> Process {
    let said = home.path().join("said");
    let mut command = tidegate(home.path(), words);
    command.stdout(Stdio::null()).stderr(File::create(&said).unwrap());
    let mut process = Process::start(&mut command);
    eventually("it serves", || {
        assert!(process.ended().is_none(), "{}", fs::read_to_string(&said).unwrap());
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    process
}

/// What curl gets, with the head in front.
fn curl(words: &[&str]) -> String {
    let Output { stdout, stderr, status } =
        Command::new("curl").args(["-sSki", "--max-time", "20"]).args(words).output().unwrap();
    assert!(status.success(), "{words:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8_lossy(&stdout).replace("\r\n", "\n")
}

#[test]
fn a_folder_is_served_in_the_clear() {
    let home = tempfile::tempdir().unwrap();
    site(&home);
    let [port] = free_ports::<1>();
    let mut process = serving(&home, port, &["site", "--listen", &port.to_string(), "-w", "1"]);
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    assert!(curl(&[&url("/")]).ends_with("\n\n<p>home</p>"));
    let packed = curl(&["-H", "Accept-Encoding: gzip, br", &url("/text.txt"), "-o", "/dev/null", "-D", "-"]);
    assert!(packed.contains("\nContent-Encoding: br\n"), "{packed}");
    let missing = curl(&[&url("/none")]);
    assert!(missing.contains(" 404 ") && missing.ends_with("<p>not here</p>"), "{missing}");
    let said = fs::read_to_string(home.path().join("said")).unwrap();
    assert!(said.contains(&format!("  http://127.0.0.1:{port}/\n")), "{said}");
    process.signal(rustix::process::Signal::TERM);
    assert!(process.wait().success());
    assert!(!home.path().join("xdg").exists(), "nothing is left behind");
}

#[test]
fn an_application_of_one_page_is_served_over_tls_with_a_certificate_that_is_kept() {
    let home = tempfile::tempdir().unwrap();
    site(&home);
    let [port] = free_ports::<1>();
    let listen = port.to_string();
    let words = ["site", "-l", &listen, "--self-signed", "--spa", "-w", "1"];
    let url = format!("https://localhost:{port}/deep/link");
    let kept = home.path().join("xdg/tidegate/self-signed.pem");
    let mut certificates = Vec::new();
    for _ in 0..2 {
        let _process = serving(&home, port, &words);
        let trusted =
            ["--cacert", kept.to_str().unwrap(), "--resolve", &format!("localhost:{port}:127.0.0.1"), &url];
        let output = Command::new("curl").args(["-sS", "--max-time", "20"]).args(trusted).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "<p>home</p>", "{output:?}");
        certificates.push(fs::read(&kept).unwrap());
    }
    assert_eq!(certificates[0], certificates[1]);
}

#[test]
fn the_studys_configuration_runs() {
    let home = tempfile::tempdir().unwrap();
    let [port] = free_ports::<1>();
    let file = study(&home, port);
    let _process = serving(&home, port, &["--nginx-conf", &file]);
    let url = |path: &str| format!("https://127.0.0.1:{port}{path}");
    let whole = curl(&["--http1.1", &url("/text.txt")]);
    assert!(
        whole.starts_with("HTTP/1.1 200 OK\n") && whole.contains("\nContent-Length: 52700\n"),
        "{}",
        &whole[..300]
    );
    let packed = curl(&["--http1.1", "--compressed", "-H", "Accept-Encoding: gzip", &url("/text.txt")]);
    let (head, body) = packed.split_once("\n\n").unwrap();
    assert!(head.contains("\nContent-Encoding: gzip") && head.contains("\nVary: Accept-Encoding"), "{head}");
    assert!(body.len() == 52_700 && body.starts_with("many words"), "unpacked it is the file");
    let named = curl(&[
        "--resolve",
        &format!("any.example:{port}:127.0.0.1"),
        &format!("https://any.example:{port}/"),
    ]);
    assert!(named.ends_with("<p>home</p>"), "any name gets the certificate: {named}");
    let missing = curl(&[&url("/none")]);
    assert!(missing.contains(" 404") && missing.ends_with("<p>not here</p>"), "{missing}");
    let said = fs::read_to_string(home.path().join("said")).unwrap();
    assert!(said.contains("TLSv1, TLSv1.1: broken protocols"), "{said}");
}

#[test]
fn what_can_not_be_translated_is_answered_by_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let root = site(&home);
    fs::write(home.path().join("site/index.php"), "<?php secret").unwrap();
    let [port] = free_ports::<1>();
    let text = format!(
        "events {{ }} http {{ server {{ listen 127.0.0.1:{port}; root {root}; index index.php; error_page 405 /404.html;
           location / {{ try_files $uri $uri/ /index.php?$args; }}
           location ~ \\.php$ {{ fastcgi_pass unix:/run/php.sock; }}
           location /text.txt {{ auth_basic staff; }}
           location /closed/ {{ deny 127.0.0.1; }}
           location /inner/ {{ internal; }} }} }}"
    );
    fs::write(home.path().join("nginx.conf"), text).unwrap();
    let _process = serving(&home, port, &["--nginx-conf", "nginx.conf"]);
    for (path, status) in [
        ("/404.html", 200),
        ("/index.php", 501),
        ("/", 403),
        ("/application", 501),
        ("/text.txt", 501),
        ("/closed/", 403),
        ("/inner/", 404),
    ] {
        let answer = curl(&[&format!("http://127.0.0.1:{port}{path}")]);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")) && !answer.contains("secret"),
            "{path}: {answer}"
        );
    }
    let posted = curl(&["-X", "POST", &format!("http://127.0.0.1:{port}/404.html")]);
    assert!(posted.contains("\nAllow: GET, HEAD\n") && posted.ends_with("<p>not here</p>"), "{posted}");
}

#[test]
fn an_import_says_what_became_of_each_directive() {
    let home = tempfile::tempdir().unwrap();
    let file = study(&home, 8443);
    let output = tidegate(home.path(), &["import", "nginx", &file, "-o", "out"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let refused: Vec<_> = text.lines().filter(|line| line.contains(": refused: ")).collect();
    assert!(refused.len() == 1 && refused[0].contains("nginx.conf:9:"), "{text}");
    assert!(text.contains(" directives: ") && text.contains("1 refused"), "{text}");
    let config = fs::read_to_string(home.path().join("out/config.yaml")).unwrap();
    assert!(config.contains("worker_connections: 10240\n"), "{config}");
    let resources = fs::read_to_string(home.path().join("out/apisix.yaml")).unwrap();
    assert!(resources.ends_with("\n#END\n") && resources.contains("routes:\n"), "{resources}");
    let strict = tidegate(home.path(), &["import", "nginx", &file, "--strict", "--json"]).output().unwrap();
    assert_eq!(strict.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&strict.stdout).unwrap();
    assert_eq!(report["summary"]["refused"], 1);
}

#[test]
fn what_was_imported_starts() {
    // The folder that an import writes names no ports of the control plane: it takes the usual ones.
    own_network("serve::what_was_imported_starts", &[7085, 8443, 9090, 9091], |network| {
        if network == Home::Shared {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let file = study(&home, 8443);
        let imported = tidegate(home.path(), &["import", "nginx", &file, "-o", "out"]).output().unwrap();
        assert!(imported.status.success(), "{imported:?}");
        let _process = listening(&home, 8443, &["start", "-c", "out/config.yaml", "--data-dir", "data"]);
        let page = curl(&["--http2", "https://127.0.0.1:8443/"]);
        assert!(page.starts_with("HTTP/2 200") && page.ends_with("<p>home</p>"), "{page}");
        let packed = curl(&[
            "--http1.1",
            "-H",
            "Accept-Encoding: gzip",
            "-o",
            "/dev/null",
            "-D",
            "-",
            "https://127.0.0.1:8443/text.txt",
        ]);
        assert!(packed.contains("\nContent-Encoding: gzip"), "{packed}");
    });
}

#[test]
fn a_changed_nginx_configuration_is_read_again_and_a_broken_one_is_not() {
    let home = tempfile::tempdir().unwrap();
    site(&home);
    fs::create_dir(home.path().join("other")).unwrap();
    fs::write(home.path().join("other/index.html"), "<p>other</p>").unwrap();
    let [port, second] = free_ports::<2>();
    let write = |server: &str| {
        let text = format!("events {{ }}\nhttp {{\n  server {{ {server} }}\n}}\n");
        fs::write(home.path().join("nginx.conf"), text).unwrap();
    };
    let reload = || {
        let words = ["reload", "--data-dir", "data", "--nginx-conf", "nginx.conf"];
        tidegate(home.path(), &words).output().unwrap()
    };
    let said = || fs::read_to_string(home.path().join("said")).unwrap();
    let page = |port: u16| curl(&[&format!("http://127.0.0.1:{port}/")]);
    let root = |name: &str| home.path().join(name).display().to_string();
    let first = format!("listen 127.0.0.1:{port}; root {}; perl_set $a b;", root("site"));
    write(&first);
    let process = serving(&home, port, &["--nginx-conf", "nginx.conf", "--data-dir", "data", "-w", "1"]);
    assert!(page(port).ends_with("<p>home</p>"));

    write(&format!("listen 127.0.0.1:{port}; listen 127.0.0.1:{second}; root {};", root("other")));
    let output = reload();
    assert!(output.status.success(), "{output:?}");
    eventually("the other folder is served", || page(port).ends_with("<p>other</p>").then_some(()));
    eventually("on the new port too", || TcpStream::connect(("127.0.0.1", second)).ok());
    assert!(page(second).ends_with("<p>other</p>"));

    // The command sees a mistake before the process does, which is told all the same.
    for (server, place) in [
        (format!("{first} index index.html"), "nginx.conf:3:"),
        (format!("{first} include gone.conf;"), "nginx.conf:3:"),
        (
            format!(
                "{first} listen 127.0.0.1:{second} ssl; ssl_certificate no.crt; ssl_certificate_key no.key;"
            ),
            "nginx.conf:3:",
        ),
    ] {
        write(&server);
        let before = said().matches("is refused, nothing changes").count();
        process.signal(rustix::process::Signal::HUP);
        eventually("it is refused", || {
            (said().matches("is refused, nothing changes").count() > before).then_some(())
        });
        assert!(said().lines().rev().take(4).any(|line| line.contains(place)), "{server}: {}", said());
        assert!(page(port).ends_with("<p>other</p>"), "{server}");
    }
    write("index");
    let output = reload();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("nginx.conf:3:"), "{output:?}");

    write(&first);
    assert!(reload().status.success());
    eventually("all is as it was", || page(port).ends_with("<p>home</p>").then_some(()));
    let stopped = tidegate(home.path(), &["stop", "--data-dir", "data"]).output().unwrap();
    assert!(stopped.status.success(), "{stopped:?}");
}
