//! Connections of clients: their number, their time limits, and the end of the server.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use axum::{Router, http::Request, response::Response};
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tokio_io_timeout::TimeoutStream;

use crate::{http::Peer, metrics::Metrics};

/// Time to receive the headers of a request, and of an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Time in which a client accepts a part of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 10_000;

/// Files that the process opens besides connections: models, keys, the log.
#[cfg(unix)]
const OTHER_FILES: usize = 64;

/// Bytes of answers that the system buffers for a connection. Without a limit it takes megabytes for
/// each client that does not read, until it delays all connections.
#[cfg(unix)]
const SEND_BUFFER: usize = 256 << 10;

/// Time of connections that are open when the server stops to send their first request.
const FIRST_REQUEST: Duration = Duration::from_secs(1);

/// Time without a new connection after which the listener is closed.
const QUIET: Duration = Duration::from_millis(20);

/// Accepts connections and serves them.
#[derive(Debug)]
pub struct Connections {
    router: Router,
    metrics: Arc<Metrics>,
    graceful: GracefulShutdown,
    slots: Arc<Semaphore>,
    /// Held by each connection until its first request.
    fresh: mpsc::Sender<Infallible>,
    first_requests: mpsc::Receiver<Infallible>,
}

impl Connections {
    /// Serves at most `max` connections at once.
    pub fn new(router: Router, metrics: Arc<Metrics>, max: usize) -> Self {
        let (fresh, first_requests) = mpsc::channel(1);
        Self {
            router,
            metrics,
            graceful: GracefulShutdown::new(),
            slots: Arc::new(Semaphore::new(max)),
            fresh,
            first_requests,
        }
    }

    /// Accepts the next connection when there is a slot for it. Further ones wait in the queue of the
    /// system.
    pub async fn accept(&self, listener: &TcpListener) {
        let Ok(slot) = self.slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => self.serve(stream, peer, slot),
            Err(error) => {
                // Existing connections go on.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, slot: OwnedSemaphorePermit) {
        // Answers are small.
        let _ = stream.set_nodelay(true);
        limit_buffer(&stream);
        let mut stream = TimeoutStream::new(stream);
        // A client that does not read must not hold a connection forever.
        stream.set_write_timeout(Some(WRITE_TIMEOUT));
        let stream: Pin<Box<TimeoutStream<TcpStream>>> = Box::pin(stream);
        let service = PeerService {
            router: self.router.clone(),
            peer: Peer(peer.ip()),
            fresh: Mutex::new(Some(self.fresh.clone())),
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        let connection = self.graceful.watch(connection);
        let counted = self.metrics.connected();
        tokio::spawn(async move {
            // A client that leaves or sends no HTTP is not an error of the server.
            let _ = connection.await;
            drop((counted, slot));
        });
    }

    /// Accepts the connections that the system has accepted already, and closes the listener. Returns
    /// when all clients have sent a request, or after a second.
    pub async fn close(self, listener: TcpListener) -> Closing {
        let end = Instant::now() + FIRST_REQUEST;
        while Instant::now() < end
            && let Ok(slot) = self.slots.clone().try_acquire_owned()
            && let Ok(Ok((stream, peer))) = timeout(QUIET, listener.accept()).await
        {
            self.serve(stream, peer, slot);
        }
        drop(listener);
        let Self { graceful, fresh, mut first_requests, .. } = self;
        drop(fresh);
        // Ends when the last connection has dropped its sender.
        let _ = timeout(FIRST_REQUEST, first_requests.recv()).await;
        Closing(graceful)
    }
}

/// Connections of a server that accepts no others.
#[derive(Debug)]
pub struct Closing(GracefulShutdown);

impl Closing {
    /// Closes each connection after its request; returns whether all are closed within `limit`.
    pub async fn finish(self, limit: Duration) -> bool {
        timeout(limit, self.0.shutdown()).await.is_ok()
    }
}

/// The routes for the requests of one connection.
#[derive(Debug)]
struct PeerService {
    router: Router,
    peer: Peer,
    fresh: Mutex<Option<mpsc::Sender<Infallible>>>,
}

impl hyper::service::Service<Request<Incoming>> for PeerService {
    type Response = Response;
    type Error = Infallible;
    type Future =
        <TowerToHyperService<Router> as hyper::service::Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if let Ok(mut fresh) = self.fresh.lock() {
            *fresh = None;
        }
        request.extensions_mut().insert(self.peer);
        TowerToHyperService::new(self.router.clone()).call(request)
    }
}

/// Limits the memory of the system for the answers of a connection.
#[cfg(unix)]
fn limit_buffer(stream: &TcpStream) {
    // Without the limit, the connection works as well.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(stream, SEND_BUFFER);
}

/// The system limits the memory of a connection.
#[cfg(not(unix))]
fn limit_buffer(_: &TcpStream) {}

/// Maximum number of connections: what the limit of open files permits, after the soft limit was raised
/// towards the hard one.
#[cfg(unix)]
pub fn max_connections() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let wanted = (MAX_CONNECTIONS + OTHER_FILES) as u64;
    let possible = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    let Some(soft) = limit.current.filter(|soft| *soft < wanted) else { return MAX_CONNECTIONS };
    let raised = Rlimit { current: Some(possible), maximum: limit.maximum };
    let files = if soft < possible && setrlimit(Resource::Nofile, raised).is_ok() {
        possible
    } else {
        soft
    };
    within(usize::try_from(files).unwrap_or(usize::MAX))
}

/// Maximum number of connections. The system has no limit of open files.
#[cfg(not(unix))]
pub fn max_connections() -> usize {
    MAX_CONNECTIONS
}

/// Number of connections of a process with so many files.
#[cfg(unix)]
fn within(files: usize) -> usize {
    files.saturating_sub(OTHER_FILES.min(files / 2)).clamp(1, MAX_CONNECTIONS)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_process() {
        assert_eq!([0, 1, 64, 1_024, 10_064, 1 << 20].map(within), [1, 1, 32, 960, 10_000, 10_000]);
        assert!((1..=MAX_CONNECTIONS).contains(&max_connections()));
    }
}
