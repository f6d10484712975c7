//! Kept connections of plain HTTP/1, each driven by whoever uses it.
//!
//! A client that gives every connection a task of its own pays for two switches of tasks with each call, and for a
//! third task that waits until the connection is free again. Here the one who waits for an answer also moves the
//! bytes, and the connection goes back to the others with the end of the answer's body.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use parking_lot::Mutex;
use tower_service::Service;

use super::connector::{BoxError, UpstreamConnector, UpstreamStream};

/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(60);
/// How many connections that nobody uses are kept.
const KEPT: usize = 256;
/// How many steps are made at once for one who waits.
const STEPS: usize = 8;
/// How often kept connections are looked at, so that those the server closed do not stay half open.
const SWEEP: Duration = Duration::from_secs(10);

/// The connections to one server.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    connector: UpstreamConnector,
    shelf: Mutex<IdleConnections>,
}

/// The connections that nobody uses.
#[derive(Debug, Default)]
struct IdleConnections {
    kept: Vec<IdleConnection>,
    /// Whether a task looks after them: calls that follow each other empty and fill the shelf every time, and each
    /// would start another one.
    is_swept: bool,
}

#[derive(Debug)]
struct IdleConnection {
    connection: PooledConnection,
    since: Instant,
}

/// One connection, and what moves its bytes.
#[derive(Debug)]
struct PooledConnection {
    sender: SendRequest<Full<Bytes>>,
    driver: ConnectionDriver,
    bell: Arc<StepWaker>,
    /// Rings the bell.
    waker: Waker,
}

/// What moves the bytes, until nothing is moved any more. It is dropped as soon as it is done: only then is a request
/// given back that was queued and never taken.
#[derive(Debug)]
struct ConnectionDriver(Option<Pin<Box<Http1Connection>>>);

type Http1Connection = http1::Connection<UpstreamStream, Full<Bytes>>;

impl ConnectionDriver {
    fn turn(&mut self, context: &mut Context<'_>) {
        // How it ended is told to the one who waits for the answer.
        if self.0.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
            self.0 = None;
        }
    }

    fn is_over(&self) -> bool {
        self.0.is_none()
    }
}

/// Wakes whoever uses a connection, but not while they are at it: the two ends of a connection wake each other at
/// every step, and both are polled by the same task.
#[derive(Debug, Default)]
struct StepWaker {
    task: AtomicWaker,
    is_polling: AtomicBool,
    has_rung: AtomicBool,
}

impl Wake for StepWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::SeqCst);
        if !self.is_polling.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

impl StepWaker {
    /// Polls `step` for this task until nothing more happens at once.
    fn poll<T>(&self, waker: &Waker, task: &Context<'_>, mut step: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        self.task.register(task.waker());
        let mut context = Context::from_waker(waker);
        for _ in 0..STEPS {
            self.has_rung.store(false, Ordering::SeqCst);
            self.is_polling.store(true, Ordering::SeqCst);
            let polled = step(&mut context);
            self.is_polling.store(false, Ordering::SeqCst);
            if polled.is_ready() || !self.has_rung.load(Ordering::SeqCst) {
                return polled;
            }
        }
        // Others should have their turn too.
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum PoolError {
    /// There was no connection.
    Connect(BoxError),
    /// The connection closed before it took the request.
    Unsent(hyper::Error),
    /// The connection broke, perhaps after it took the request.
    Broke(hyper::Error),
}

impl PooledConnection {
    /// Whether it can take a request now.
    fn is_free(&mut self) -> bool {
        self.driver.turn(&mut Context::from_waker(Waker::noop()));
        !self.driver.is_over() && self.sender.is_ready()
    }
}

impl ConnectionPool {
    pub(super) fn new(connector: UpstreamConnector) -> Arc<Self> {
        Arc::new(Self { connector, shelf: Mutex::default() })
    }

    /// Sends a request and gives the head of its answer. A kept connection that closed before it took the request
    /// is no failure: nothing was sent, so another may take it.
    pub(super) async fn send(
        self: &Arc<Self>,
        server: &Uri,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<DrivenBody>, PoolError> {
        while let Some(mut connection) = self.take() {
            match exchange(&mut connection, request).await {
                Ok(response) => return Ok(self.driven(response, connection)),
                Err((_, Some(unsent))) => request = unsent,
                Err(failure) => return Err(broken(failure)),
            }
        }
        let mut connection = self.connect(server.clone()).await?;
        match exchange(&mut connection, request).await {
            Ok(response) => Ok(self.driven(response, connection)),
            Err(failure) => Err(broken(failure)),
        }
    }

    async fn connect(&self, uri: Uri) -> Result<PooledConnection, PoolError> {
        let stream = self.connector.clone().call(uri).await.map_err(PoolError::Connect)?;
        let (sender, driver) = http1::handshake(stream).await.map_err(PoolError::Broke)?;
        let bell = Arc::<StepWaker>::default();
        let waker = Waker::from(bell.clone());
        Ok(PooledConnection { sender, driver: ConnectionDriver(Some(Box::pin(driver))), bell, waker })
    }

    /// The connection that was used last and can take a request.
    fn take(&self) -> Option<PooledConnection> {
        loop {
            let IdleConnection { mut connection, since } = self.shelf.lock().kept.pop()?;
            if since.elapsed() < IDLE && connection.is_free() {
                return Some(connection);
            }
        }
    }

    fn driven(self: &Arc<Self>, response: Response<Incoming>, connection: PooledConnection) -> Response<DrivenBody> {
        let pool = Arc::downgrade(self);
        response.map(|body| {
            let mut body = DrivenBody { body, connection: Some(connection), pool };
            // Nobody reads a body that is not there, so nobody would find its end.
            if body.is_end_stream() {
                body.ended();
            }
            body
        })
    }

    /// Takes a connection back whose answer was read to the end.
    fn give_back(self: &Arc<Self>, mut connection: PooledConnection) {
        if !connection.is_free() {
            return;
        }
        let mut shelf = self.shelf.lock();
        if shelf.kept.len() >= KEPT {
            return;
        }
        shelf.kept.push(IdleConnection { connection, since: Instant::now() });
        let is_swept = std::mem::replace(&mut shelf.is_swept, true);
        drop(shelf);
        if !is_swept {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Forgets what is too old or was closed by the server; `false` when nothing is left to look at.
    fn forget_gone(&self) -> bool {
        let mut shelf = self.shelf.lock();
        shelf.kept.retain_mut(|kept| kept.since.elapsed() < IDLE && kept.connection.is_free());
        shelf.is_swept = !shelf.kept.is_empty();
        shelf.is_swept
    }
}

/// Looks after kept connections while there are any.
async fn sweep(pool: Weak<ConnectionPool>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if !pool.upgrade().is_some_and(|pool| pool.forget_gone()) {
            return;
        }
    }
}

type UnsentRequest = Option<Request<Full<Bytes>>>;

fn broken((error, unsent): (hyper::Error, UnsentRequest)) -> PoolError {
    match unsent {
        Some(_) => PoolError::Unsent(error),
        None => PoolError::Broke(error),
    }
}

/// Sends a request on a connection and moves bytes until the head of the answer is there. With an error comes the
/// request, when it was certainly not sent.
async fn exchange(
    connection: &mut PooledConnection,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, (hyper::Error, UnsentRequest)> {
    let PooledConnection { sender, driver, bell, waker } = connection;
    let mut answer = std::pin::pin!(sender.try_send_request(request));
    std::future::poll_fn(|task| {
        bell.poll(waker, task, |context| {
            driver.turn(context);
            answer.as_mut().poll(context)
        })
    })
    .await
    .map_err(|mut error| {
        let unsent = error.take_message();
        (error.into_error(), unsent)
    })
}

/// The body of an answer, which moves its connection's bytes when it is read. Dropping it before its end closes the
/// connection.
#[derive(Debug)]
pub(super) struct DrivenBody {
    body: Incoming,
    connection: Option<PooledConnection>,
    pool: Weak<ConnectionPool>,
}

impl DrivenBody {
    /// The connection is free for others.
    fn ended(&mut self) {
        if let (Some(connection), Some(pool)) = (self.connection.take(), self.pool.upgrade()) {
            pool.give_back(connection);
        }
    }
}

impl Body for DrivenBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let frame = match &mut this.connection {
            None => Pin::new(&mut this.body).poll_frame(context),
            Some(PooledConnection { driver, bell, waker, .. }) => bell.poll(waker, context, |context| {
                driver.turn(context);
                Pin::new(&mut this.body).poll_frame(context)
            }),
        };
        let frame = std::task::ready!(frame);
        if frame.is_none() || self.body.is_end_stream() {
            self.ended();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
