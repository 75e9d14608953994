//! The Redis protocol, version 2, as far as tests need it.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    str::FromStr,
    time::Duration,
};

/// A blocking connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: BufReader<S>,
}

impl Connection<TcpStream> {
    /// Connects over TCP; no read waits longer than `timeout`.
    pub(crate) fn open(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        Ok(Self::over(stream))
    }
}

impl Connection<UnixStream> {
    /// Connects over a Unix socket; no read waits longer than `timeout`.
    pub(crate) fn open_unix(path: &Path, timeout: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(timeout))?;
        Ok(Self::over(stream))
    }
}

impl<S: Read + Write> Connection<S> {
    fn over(stream: S) -> Self {
        let stream = BufReader::new(stream);
        Self { stream }
    }

    /// Sends a command and reads its reply. An error of the server is a reply, too.
    pub(crate) fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args.iter().map(AsRef::as_ref) {
            request.extend(format!("${}\r\n", arg.len()).bytes());
            request.extend(arg);
            request.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(&line))?;
        match kind {
            "+" => Ok(Reply::Status(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => number(rest).map(Reply::Integer),
            "$" | "*" if rest == "-1" => Ok(Reply::Null),
            "$" => self.bulk(number(rest)?).map(Reply::Bulk),
            "*" => (0..number(rest)?)
                .map(|_| self.reply())
                .collect::<Result<_, _>>()
                .map(Reply::Array),
            _ => Err(malformed(&line)),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let Some(text) = line.strip_suffix("\r\n") else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        Ok(text.to_owned())
    }

    fn bulk(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
}

impl Reply {
    /// The text of a status or of a bulk string.
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Status(text) => text,
            Self::Bulk(bytes) => str::from_utf8(bytes).expect("it is UTF-8"),
            other => panic!("no text: {other}"),
        }
    }

    /// The bytes of a bulk string.
    #[track_caller]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Bulk(bytes) => bytes,
            other => panic!("no bulk string: {other}"),
        }
    }

    #[track_caller]
    pub(crate) fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => panic!("no integer: {other}"),
        }
    }

    #[track_caller]
    pub(crate) fn array(&self) -> &[Self] {
        match self {
            Self::Array(members) => members,
            other => panic!("no array: {other}"),
        }
    }

    /// The message, if this is an error.
    pub(crate) fn error(&self) -> Option<&str> {
        match self {
            Self::Error(message) => Some(message),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    pub(crate) fn is_ok(&self) -> bool {
        matches!(self, Self::Status(text) if text == "OK")
    }

    /// Panics if this is an error.
    #[track_caller]
    pub(crate) fn expect_success(&self) {
        assert_eq!(self.error(), None);
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(text) => f.write_str(text),
            Self::Error(message) => write!(f, "(error) {message}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Null => f.write_str("(null)"),
            Self::Array(members) => {
                let texts: Vec<_> = members.iter().map(Self::to_string).collect();
                write!(f, "[{}]", texts.join(", "))
            }
        }
    }
}

fn number<T: FromStr>(text: &str) -> io::Result<T> {
    text.parse().map_err(|_| malformed(text))
}

fn malformed(line: &str) -> io::Error {
    io::Error::other(format!("not a reply: {line:?}"))
}
