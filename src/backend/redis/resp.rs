//! The protocol of Redis in its second version, RESP2: commands and replies.

use bytes::{BufMut, Bytes, BytesMut};

/// A part of a command, or a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RedisValue {
    Nothing,
    Integer(i64),
    Bytes(Bytes),
    Error(String),
    Array(Vec<RedisValue>),
}

/// The reason why a text is not a reply, or not yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoReply {
    Incomplete,
    Malformed,
}

/// The longest text of a reply, as in Redis.
const MOST_BYTES: usize = 512 << 20;

/// The deepest nesting of arrays. The table of slots has four levels.
const MOST_LEVELS: usize = 8;

impl RedisValue {
    pub(super) const fn from_static_str(text: &'static str) -> Self {
        Self::Bytes(Bytes::from_static(text.as_bytes()))
    }

    pub(super) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        str::from_utf8(self.as_bytes()?).ok()
    }

    pub(super) fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(values) => Some(values),
            _ => None,
        }
    }
}

impl From<String> for RedisValue {
    fn from(text: String) -> Self {
        Self::Bytes(text.into())
    }
}

/// Appends a command.
pub(super) fn encode(to: &mut BytesMut, name: &str, arguments: &[RedisValue]) {
    push_head(to, b'*', 1 + arguments.len());
    push_text(to, name.as_bytes());
    let mut integer = itoa::Buffer::new();
    for argument in arguments {
        match argument {
            RedisValue::Integer(number) => push_text(to, integer.format(*number).as_bytes()),
            argument => push_text(to, argument.as_bytes().unwrap_or_default()),
        }
    }
}

fn push_text(to: &mut BytesMut, text: &[u8]) {
    push_head(to, b'$', text.len());
    to.extend_from_slice(text);
    to.extend_from_slice(b"\r\n");
}

fn push_head(to: &mut BytesMut, kind: u8, length: usize) {
    to.put_u8(kind);
    to.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    to.extend_from_slice(b"\r\n");
}

/// Reads the reply at the beginning of a text. Returns it with its length in bytes.
pub(super) fn decode(text: &[u8]) -> Result<(RedisValue, usize), NoReply> {
    let mut rest = text;
    let value = take_value(&mut rest, MOST_LEVELS)?;
    Ok((value, text.len() - rest.len()))
}

fn take_value(rest: &mut &[u8], levels: usize) -> Result<RedisValue, NoReply> {
    let (kind, line) = take_line(rest)?.split_first().ok_or(NoReply::Malformed)?;
    Ok(match kind {
        b'+' => RedisValue::Bytes(Bytes::copy_from_slice(line)),
        b'-' => RedisValue::Error(String::from_utf8_lossy(line).into_owned()),
        b':' => RedisValue::Integer(number(line)?),
        b'$' => match length(line)? {
            Some(length) if length <= MOST_BYTES => take_bytes(rest, length)?,
            Some(_) => return Err(NoReply::Malformed),
            None => RedisValue::Nothing,
        },
        b'*' => match length(line)? {
            Some(count) => {
                let below = levels.checked_sub(1).ok_or(NoReply::Malformed)?;
                let values = (0..count).map(|_| take_value(rest, below));
                RedisValue::Array(values.collect::<Result<_, _>>()?)
            }
            None => RedisValue::Nothing,
        },
        _ => return Err(NoReply::Malformed),
    })
}

fn take_line<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], NoReply> {
    let text = *rest;
    // Every reply begins with one of these bytes, so a server with another protocol is recognized by its first byte.
    if text.first().is_some_and(|kind| !b"+-:$*".contains(kind)) {
        return Err(NoReply::Malformed);
    }
    let end = text.windows(2).position(|pair| pair == b"\r\n");
    let end = end.ok_or(NoReply::Incomplete)?;
    *rest = &text[end + 2..];
    Ok(&text[..end])
}

fn take_bytes(rest: &mut &[u8], length: usize) -> Result<RedisValue, NoReply> {
    let text = *rest;
    let (bytes, after) = text.split_at_checked(length).ok_or(NoReply::Incomplete)?;
    match after {
        [b'\r', b'\n', after @ ..] => *rest = after,
        [] | [b'\r'] => return Err(NoReply::Incomplete),
        _ => return Err(NoReply::Malformed),
    }
    Ok(RedisValue::Bytes(Bytes::copy_from_slice(bytes)))
}

/// Reads a length. -1 stands for a missing value.
fn length(line: &[u8]) -> Result<Option<usize>, NoReply> {
    match number(line)? {
        -1 => Ok(None),
        length => length.try_into().map(Some).map_err(|_| NoReply::Malformed),
    }
}

fn number(line: &[u8]) -> Result<i64, NoReply> {
    let text = str::from_utf8(line).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or(NoReply::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_a_list_of_texts() {
        let mut text = BytesMut::new();
        let arguments = [RedisValue::Integer(-1), RedisValue::from_static_str("")];
        encode(&mut text, "EVAL", &arguments);
        assert_eq!(&text[..], b"*3\r\n$4\r\nEVAL\r\n$2\r\n-1\r\n$0\r\n\r\n");
    }

    #[test]
    fn reply_is_read_once_it_is_whole() {
        let text = |text: &'static str| RedisValue::from_static_str(text);
        let error = RedisValue::Error("ERR no".to_owned());
        let nested = RedisValue::Array(vec![text("a"), RedisValue::Array(vec![])]);
        for (reply, value) in [
            ("+OK\r\n", text("OK")),
            ("-ERR no\r\n", error),
            (":-7\r\n", RedisValue::Integer(-7)),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("$0\r\n\r\n", text("")),
            ("$-1\r\n", RedisValue::Nothing),
            ("*-1\r\n", RedisValue::Nothing),
            ("*2\r\n$1\r\na\r\n*0\r\n", nested),
        ] {
            for length in 0..reply.len() {
                let part = &reply.as_bytes()[..length];
                assert_eq!(decode(part), Err(NoReply::Incomplete), "{part:?}");
            }
            let followed = format!("{reply}+more");
            let found = decode(followed.as_bytes());
            assert_eq!(found, Ok((value, reply.len())), "{reply:?}");
        }
    }

    #[test]
    fn other_texts_are_no_replies() {
        let deep = "*1\r\n".repeat(MOST_LEVELS + 1);
        for text in [
            "\x15",
            "HTTP/1.1 400",
            "$x\r\n",
            "$-2\r\n",
            "$1\r\nab\r\n",
            ":\r\n",
            "$536870913\r\n",
            &deep,
        ] {
            assert_eq!(decode(text.as_bytes()), Err(NoReply::Malformed), "{text:?}");
        }
    }
}
