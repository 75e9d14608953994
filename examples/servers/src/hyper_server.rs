use std::{convert::Infallible, io, net::SocketAddr};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::net::TcpListener;
use tollgate::{ClientIp, Limit, RateLimitLayer};
use tower::ServiceBuilder;

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    // One layer for all connections.
    let limits = RateLimitLayer::new(Limit::per_second(10).burst(20), ClientIp::peer());
    loop {
        let (stream, peer): (_, SocketAddr) = listener.accept().await?;
        let service = ServiceBuilder::new()
            .map_request(move |mut request: Request<Incoming>| {
                // `ClientIp` finds the address here.
                request.extensions_mut().insert(peer);
                request
            })
            .layer(limits.clone())
            .service_fn(hello);
        let service = TowerToHyperService::new(service);
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

// The page ends here.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[tokio::test]
async fn clients_have_the_limits_of_their_addresses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(
        response.contains("ratelimit: \"requests\";r=19"),
        "{response}"
    );
}
