//! Connections, signals and the end of the server.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use futures_util::future::OptionFuture;
use tokio::{
    net::{TcpListener, TcpSocket},
    runtime::{Builder, Runtime},
    sync::oneshot,
};

use crate::{
    connections::{Connections, max_connections},
    error::ServeError,
    http,
    options::ServerOptions,
    service::Service,
};

/// Connections that may wait to be accepted; the system may permit fewer. `TcpListener::bind` permits
/// 128, which clients that connect at once exceed: the system drops their first packet, and they send
/// it again after a second.
const BACKLOG: u32 = 4_096;

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    runtime: Runtime,
    listener: TcpListener,
    service: Arc<Service>,
    connections: usize,
}

/// Stops a server from another thread.
#[derive(Debug)]
pub struct Stop(oneshot::Sender<()>);

impl Stop {
    /// Stops the server: it finishes requests in progress and accepts no others.
    pub fn stop(self) {
        // The server may have stopped before.
        let _ = self.0.send(());
    }
}

impl Server {
    /// Loads the models and starts to listen. Raises the limit of open files of the process as far as
    /// connections need it.
    ///
    /// # Errors
    ///
    /// If a model cannot be loaded, or the address cannot be bound.
    pub fn bind(options: ServerOptions) -> Result<Self, ServeError> {
        let threads = options.execution.threads.max(1);
        let address = options.listen;
        let service = Arc::new(Service::new(options)?);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.min(4))
            // Threads that divide texts and compose answers.
            .max_blocking_threads(2 * threads)
            .enable_all()
            .build()
            .map_err(|source| ServeError::Threads { source })?;
        let listener = runtime
            .block_on(async { listen(address) })
            .map_err(|source| ServeError::Listen { address, source })?;
        Ok(Self { runtime, listener, service, connections: max_connections() })
    }

    /// Maximum number of connections, by the limit of open files.
    pub fn connections(&self) -> usize {
        self.connections
    }

    /// Address of the server.
    ///
    /// # Errors
    ///
    /// If the system does not return it.
    pub fn address(&self) -> Result<SocketAddr, ServeError> {
        let address = self.service.options.listen;
        self.listener.local_addr().map_err(|source| ServeError::Listen { address, source })
    }

    /// State of the server.
    pub fn service(&self) -> &Arc<Service> {
        &self.service
    }

    /// Answers requests until a signal to stop: SIGTERM or SIGINT. SIGHUP loads models and keys again. With
    /// `stop`, only its handle stops the server, and the signals are left to the program.
    ///
    /// After SIGTERM the server is not ready, but answers requests for [`ServerOptions::stop_delay`],
    /// unless another signal to stop arrives.
    ///
    /// # Errors
    ///
    /// If signals cannot be received.
    pub fn run(self, stop: Option<oneshot::Receiver<()>>) -> Result<(), ServeError> {
        let Self { runtime, listener, service, connections } = self;
        runtime.block_on(serve(listener, service.clone(), connections, stop))?;
        service.pool.close();
        runtime.shutdown_timeout(Duration::from_secs(1));
        service.pool.wait();
        Ok(())
    }

    /// Creates a handle that stops a server, and what [`run`](Self::run) needs for it.
    pub fn stop_handle() -> (Stop, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Stop(sender), receiver)
    }
}

/// Listens at an address.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A server that starts again does not wait for the connections of the one before. On Windows the
    // option would let two servers share the address.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn serve(
    listener: TcpListener,
    service: Arc<Service>,
    connections: usize,
    stop: Option<oneshot::Receiver<()>>,
) -> Result<(), ServeError> {
    let router = http::router(service.clone());
    let connections = Connections::new(router, service.metrics.clone(), connections);
    let mut signals = if stop.is_none() { Some(Signals::new()?) } else { None };
    let stop = async {
        match stop {
            // A dropped handle does not stop the server.
            Some(stop) => match stop.await {
                Ok(()) => {}
                Err(_) => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    };
    tokio::pin!(stop);
    // Ends after the delay of a signal to stop.
    let leaving = OptionFuture::from(None);
    tokio::pin!(leaving);
    loop {
        tokio::select! {
            () = connections.accept(&listener) => {}
            signal = next(&mut signals) => match signal {
                Signaled::Reload => reload(&service),
                Signaled::Leave if !service.is_leaving() => {
                    service.leave();
                    leaving.set(Some(tokio::time::sleep(service.options.stop_delay)).into());
                }
                Signaled::Leave | Signaled::Stop => break,
            },
            Some(()) = &mut leaving => break,
            () = &mut stop => break,
        }
    }
    tracing::info!("stopping");
    // Closes connections after their next answers.
    service.leave();
    let closing = connections.close(listener).await;
    if !closing.finish(service.options.drain).await {
        tracing::warn!("requests in progress were interrupted");
    }
    service.stop();
    Ok(())
}

/// Waits for a signal, forever without a receiver of signals.
async fn next(signals: &mut Option<Signals>) -> Signaled {
    match signals {
        Some(signals) => signals.next().await,
        None => std::future::pending().await,
    }
}

/// Loads models and keys again on another thread.
fn reload(service: &Arc<Service>) {
    let service = service.clone();
    tokio::task::spawn_blocking(move || {
        for error in service.reload() {
            tracing::error!(error = error.chain(), "not loaded again");
        }
        tracing::info!(models = service.registry.models().len() as u64, "loaded again");
    });
}

/// Signals of the operator.
#[derive(Debug)]
enum Signaled {
    /// Load models and keys again.
    #[cfg_attr(not(unix), expect(dead_code, reason = "Windows has no such event"))]
    Reload,
    /// Stop, after load balancers had time to notice.
    Leave,
    /// Stop.
    Stop,
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Result<Self, ServeError> {
        use tokio::signal::unix::{SignalKind, signal};
        let signal = |kind| signal(kind).map_err(|source| ServeError::Threads { source });
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Signaled {
        tokio::select! {
            _ = self.terminate.recv() => Signaled::Leave,
            _ = self.interrupt.recv() => Signaled::Stop,
            _ = self.hangup.recv() => Signaled::Reload,
        }
    }
}

/// Events of the console. The system ends the process some seconds after the last two.
#[cfg(windows)]
struct Signals {
    interrupt: tokio::signal::windows::CtrlC,
    stop: tokio::signal::windows::CtrlBreak,
    close: tokio::signal::windows::CtrlClose,
    shutdown: tokio::signal::windows::CtrlShutdown,
}

#[cfg(windows)]
impl Signals {
    fn new() -> Result<Self, ServeError> {
        use tokio::signal::windows;
        let new = || {
            Ok(Self {
                interrupt: windows::ctrl_c()?,
                stop: windows::ctrl_break()?,
                close: windows::ctrl_close()?,
                shutdown: windows::ctrl_shutdown()?,
            })
        };
        new().map_err(|source| ServeError::Threads { source })
    }

    async fn next(&mut self) -> Signaled {
        tokio::select! {
            _ = self.interrupt.recv() => Signaled::Stop,
            // Sent by programs that supervise others, as SIGTERM is.
            _ = self.stop.recv() => Signaled::Leave,
            _ = self.close.recv() => Signaled::Stop,
            _ = self.shutdown.recv() => Signaled::Stop,
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs, net::TcpStream};

    use super::*;

    /// The system drops the first packet of a client that finds the queue full.
    #[test]
    fn hundreds_of_clients_connect_at_once() {
        let permitted = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let count = permitted.trim().parse::<usize>().unwrap().min(400);
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = runtime.block_on(async { listen(address) }).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(500)).unwrap();
        let clients: Vec<TcpStream> = (0..count).map(connect).collect();
        assert_eq!(clients.len(), count);
    }
}
