//! A server that stands in for a secret manager in tests: answers each request by a function, one connection each.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// A server that is there as long as the test.
pub(crate) struct Server {
    pub(crate) url: String,
}

pub(crate) struct Request {
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

pub(crate) struct Reply {
    status: u16,
    body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Reply {
    pub(crate) fn new(status: u16, body: &str) -> Self {
        Self { status, body: body.to_owned() }
    }
}

/// Serves on a port of the kernel's choice. A failed assertion in `answer` closes the connection, and the caller's
/// request fails.
pub(crate) fn serve(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = std::sync::Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = std::sync::Arc::clone(&answer);
            thread::spawn(move || one(stream, &*answer));
        }
    });
    Server { url }
}

fn one(stream: TcpStream, answer: &dyn Fn(&Request) -> Reply) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let header = |line: &String| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_ascii_lowercase(), value.trim().to_owned())
    };
    let headers: Vec<_> = lines[1..].iter().map(header).collect();
    let mut request =
        Request { path: lines[0].split(' ').nth(1).unwrap().to_owned(), headers, body: String::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    request.body = String::from_utf8(body).unwrap();
    let Reply { status, body } = answer(&request);
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    reader.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
}
