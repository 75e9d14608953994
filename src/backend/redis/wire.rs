//! A stream to a server. Its task writes commands as they come in, and hands out the replies in the same order.

use std::{collections::VecDeque, io, time::Duration};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    net::TcpStream,
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time,
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};

use super::{
    error::CommandFailure,
    resp::{self, NoReply, RedisValue},
    server_set::ServerAddress,
};

/// Sends commands to one server.
#[derive(Clone)]
pub(super) struct Wire(mpsc::UnboundedSender<SentCommand>);

/// The task that serves a connection. It ends when this is dropped.
pub(super) struct ConnectionTask(JoinHandle<String>);

/// Commands that are sent together, and the sender for the reply to the last of them.
struct SentCommand {
    text: BytesMut,
    /// The number of replies before that one, which are ignored.
    ignored: usize,
    reply: oneshot::Sender<RedisValue>,
}

/// The free space that is reserved for each read, in bytes.
const READ_BYTES: usize = 4096;

/// A stream of any kind.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Wire {
    /// Connects to a server, with TLS if there is a connector.
    pub(super) async fn open(
        server: &ServerAddress,
        tls: Option<&TlsConnector>,
    ) -> io::Result<(Self, ConnectionTask)> {
        let stream: Box<dyn Stream> = match server {
            #[cfg(unix)]
            ServerAddress::Unix(path) => Box::new(tokio::net::UnixStream::connect(path).await?),
            #[cfg(not(unix))]
            ServerAddress::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
            ServerAddress::Tcp { host, port } => {
                let stream = TcpStream::connect((&**host, *port)).await?;
                stream.set_nodelay(true)?;
                match tls {
                    None => Box::new(stream),
                    Some(tls) => {
                        let name = ServerName::try_from(host.to_string());
                        let name = name.map_err(io::Error::other)?;
                        Box::new(tls.connect(name, stream).await?)
                    }
                }
            }
        };
        let (commands, sent) = mpsc::unbounded_channel();
        let ending = tokio::spawn(serve(stream, sent));
        Ok((Self(commands), ConnectionTask(ending)))
    }

    /// Sends a command without delay, and returns its reply. If `asking`, the command is for a slot that the server is importing.
    pub(super) fn send(
        &self,
        name: &str,
        arguments: &[RedisValue],
        asking: bool,
        timeout: Duration,
    ) -> impl Future<Output = Result<RedisValue, CommandFailure>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let mut text = BytesMut::new();
        if asking {
            resp::encode(&mut text, "ASKING", &[]);
        }
        resp::encode(&mut text, name, arguments);
        let ignored = usize::from(asking);
        // Without its task, the answer is an error.
        let _ended = self.0.send(SentCommand {
            text,
            ignored,
            reply,
        });
        async move {
            match time::timeout(timeout, answer).await {
                Ok(Ok(RedisValue::Error(reply))) => Err(CommandFailure::Refused(reply)),
                Ok(Ok(value)) => Ok(value),
                Ok(Err(_)) => Err(CommandFailure::Ended),
                Err(_) => Err(CommandFailure::Timeout),
            }
        }
    }
}

impl ConnectionTask {
    /// Waits until the connection ends, and returns the reason.
    pub(super) async fn ended(&mut self) -> String {
        let ended = (&mut self.0).await;
        ended.unwrap_or_else(|_| "its task has ended".to_owned())
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves a stream until it ends, or until all senders are gone. Returns the reason.
async fn serve(stream: Box<dyn Stream>, mut sent: mpsc::UnboundedReceiver<SentCommand>) -> String {
    let (mut reader, mut writer) = split(stream);
    let mut outgoing = BytesMut::new();
    let mut incoming = BytesMut::new();
    let mut waiting = VecDeque::new();
    let mut is_flushed = true;
    loop {
        incoming.reserve(READ_BYTES);
        tokio::select! {
            command = sent.recv() => {
                let Some(command) = command else {
                    return "nobody uses it".to_owned();
                };
                let mut next = Some(command);
                while let Some(command) = next {
                    outgoing.unsplit(command.text);
                    waiting.extend((0..command.ignored).map(|_| None));
                    waiting.push_back(Some(command.reply));
                    next = sent.try_recv().ok();
                }
                is_flushed = false;
            }
            written = write(&mut writer, &mut outgoing), if !is_flushed => match written {
                Ok(()) => is_flushed = true,
                Err(error) => return error.to_string(),
            },
            read = reader.read_buf(&mut incoming) => {
                match read {
                    Ok(0) => return "the server closed it".to_owned(),
                    Ok(_) => {}
                    Err(error) => return error.to_string(),
                }
                if let Err(reason) = hand_out(&mut incoming, &mut waiting) {
                    return reason;
                }
            }
        }
    }
}

/// Writes the outgoing bytes. If this is dropped, the unwritten ones stay in the buffer.
async fn write(writer: &mut (impl AsyncWrite + Unpin), outgoing: &mut BytesMut) -> io::Result<()> {
    writer.write_all_buf(outgoing).await?;
    writer.flush().await
}

/// Hands out all complete replies. A reply without a command is the server's reason for ending the stream.
fn hand_out(
    incoming: &mut BytesMut,
    waiting: &mut VecDeque<Option<oneshot::Sender<RedisValue>>>,
) -> Result<(), String> {
    loop {
        let value = match resp::decode(incoming) {
            Ok((value, length)) => {
                incoming.advance(length);
                value
            }
            Err(NoReply::Incomplete) => return Ok(()),
            Err(NoReply::Malformed) => return Err("the server speaks another protocol".to_owned()),
        };
        match (waiting.pop_front(), value) {
            // The caller may have left.
            (Some(reply), value) => drop(reply.map(|reply| reply.send(value))),
            (None, RedisValue::Error(reason)) => return Err(reason),
            (None, _) => return Err("the server sent a reply to nothing".to_owned()),
        }
    }
}
