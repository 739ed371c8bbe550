//! Sockets of Lua code: `ngx.socket.tcp` over the worker's connections.

use super::host::{Api, duration, nil_and, services, wait_for};
use mlua::{Lua, LuaString, MultiValue, UserData, UserDataMethods, Value};
use plugin::Io;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::rc::Rc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Bytes that one `receive` takes: a line or a body of a protocol.
const RECEIVED_BYTES_MAX: usize = 64 << 20;

/// Idle connections of one VM.
const IDLE_MAX: usize = 256;

/// A connection that Lua code has opened.
#[derive(Clone)]
pub(crate) struct Socket(Rc<State>);

struct State {
    /// Out while an operation is under way, and for good after an error.
    connection: RefCell<Option<Connection>>,
    reused: Cell<u32>,
}

struct Connection {
    io: Box<dyn Io>,
    /// What was read and not asked for yet.
    buffer: Vec<u8>,
}

/// Connections that wait for the next use, by the pool's name.
#[derive(Default)]
struct Idle(RefCell<VecDeque<(String, Connection, u32)>>);

impl Socket {
    pub(crate) fn new(io: Box<dyn Io>) -> Self {
        let connection = RefCell::new(Some(Connection { io, buffer: Vec::new() }));
        Self(Rc::new(State { connection, reused: Cell::new(0) }))
    }

    /// Runs an operation on the connection, and puts it back unless that fails.
    fn operate<T: 'static, F>(
        &self,
        lua: &Lua,
        seconds: f64,
        operation: impl FnOnce(Connection) -> F,
        answer: impl FnOnce(&Lua, T) -> mlua::Result<Value> + 'static,
    ) -> mlua::Result<()>
    where
        F: Future<Output = io::Result<(Connection, T)>> + 'static,
    {
        let connection = self.0.connection.borrow_mut().take();
        let Some(connection) = connection else {
            return wait_for(lua, std::future::ready(()), |lua, ()| nil_and(lua, "closed"));
        };
        let operation = operation(connection);
        let sleep = services(lua)?.sleep(duration(seconds)?);
        let state = Rc::clone(&self.0);
        let limited = async move {
            tokio::select! {
                biased;
                done = operation => done.map(|(connection, result)| {
                    state.connection.replace(Some(connection));
                    result
                }),
                () = sleep => Err(io::ErrorKind::TimedOut.into()),
            }
        };
        wait_for(lua, limited, |lua, done| match done {
            Ok(result) => Ok(MultiValue::from_iter([answer(lua, result)?])),
            Err(error) => nil_and(lua, &word(&error)),
        })
    }
}

fn word(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => "timeout".to_owned(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => "closed".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        _ => error.to_string(),
    }
}

impl Connection {
    async fn fill(&mut self) -> io::Result<usize> {
        if self.buffer.len() > RECEIVED_BYTES_MAX {
            return Err(io::Error::other("too much was received at once"));
        }
        self.io.read_buf(&mut self.buffer).await
    }

    /// A line without its end.
    async fn line(mut self) -> io::Result<(Self, Vec<u8>)> {
        let mut seen = 0;
        loop {
            if let Some(at) = self.buffer[seen..].iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(seen + at + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.retain(|byte| !matches!(byte, b'\r' | b'\n'));
                return Ok((self, line));
            }
            seen = self.buffer.len();
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// So many bytes.
    async fn exactly(mut self, count: usize) -> io::Result<(Self, Vec<u8>)> {
        while self.buffer.len() < count {
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.buffer.split_off(count);
        let taken = std::mem::replace(&mut self.buffer, rest);
        Ok((self, taken))
    }

    /// What comes until the peer closes.
    async fn all(mut self) -> io::Result<(Self, Vec<u8>)> {
        while self.fill().await? > 0 {}
        let taken = std::mem::take(&mut self.buffer);
        Ok((self, taken))
    }
}

fn text(lua: &Lua, bytes: Vec<u8>) -> mlua::Result<Value> {
    lua.create_string(bytes).map(Value::String)
}

impl UserData for Socket {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("send", |lua, this, (data, seconds): (LuaString, f64)| {
            let data = data.as_bytes().to_vec();
            let length = data.len();
            let send = |mut connection: Connection| async move {
                connection.io.write_all(&data).await?;
                connection.io.flush().await?;
                Ok((connection, ()))
            };
            #[expect(clippy::cast_possible_wrap, reason = "a string of Lua")]
            this.operate(lua, seconds, send, move |_, ()| Ok(Value::Integer(length as i64)))
        });
        methods
            .add_method("line", |lua, this, seconds: f64| this.operate(lua, seconds, Connection::line, text));
        methods.add_method("exactly", |lua, this, (count, seconds): (usize, f64)| {
            if count > RECEIVED_BYTES_MAX {
                return Err(mlua::Error::runtime("too much to receive at once"));
            }
            this.operate(lua, seconds, move |connection| connection.exactly(count), text)
        });
        methods
            .add_method("all", |lua, this, seconds: f64| this.operate(lua, seconds, Connection::all, text));
        methods.add_method("close", |_, this, ()| Ok(this.0.connection.take().is_some()));
        methods.add_method("reused", |_, this, ()| Ok(this.0.reused.get()));
        methods.add_method("keep", |lua, this, pool: String| {
            let Some(connection) = this.0.connection.take() else { return Ok(false) };
            // Bytes that nobody asked for would answer somebody else.
            if !connection.buffer.is_empty() {
                return Ok(false);
            }
            if let Some(idle) = lua.app_data_ref::<Idle>() {
                let mut all = idle.0.borrow_mut();
                if all.len() >= IDLE_MAX {
                    all.pop_front();
                }
                all.push_back((pool, connection, this.0.reused.get() + 1));
            }
            Ok(true)
        });
    }
}

pub(super) fn open(api: &Api<'_>) -> mlua::Result<()> {
    api.lua.set_app_data(Idle::default());
    api.put("kept_socket", |lua, pool: String| {
        let Some(idle) = lua.app_data_ref::<Idle>() else { return Ok(None) };
        let mut all = idle.0.borrow_mut();
        let Some(at) = all.iter().rposition(|(of, ..)| *of == pool) else { return Ok(None) };
        let Some((_, connection, reused)) = all.remove(at) else { return Ok(None) };
        let connection = RefCell::new(Some(connection));
        Ok(Some(Socket(Rc::new(State { connection, reused: Cell::new(reused) }))))
    })
}
