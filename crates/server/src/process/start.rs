//! The lifetime of a server from start to end. A server may start as the successor of a running
//! one, its predecessor.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use larder::Cache;
use larder_options::Options;
use larder_stats::Counter;

use crate::admin::access::tokens::Tokens;
use crate::admin::{self, Http};
use crate::discovery::Resolver;
use crate::failure::{EXIT_FAILURE, EXIT_OS, EXIT_USAGE, Failure};
use crate::leftovers::Leftovers;
use crate::log;
use crate::memory;
use crate::near::NearThreads;
use crate::net::datagrams::Datagrams;
use crate::net::inbox::Inbox;
use crate::net::listener::Listener;
use crate::net::sockets;
use crate::net::sockets::{Address, Socket};
use crate::net::unix_socket;
use crate::observe::conn_table::Ends;
use crate::process::daemon::DetachedProcess;
use crate::process::early_stop::EarlyStop;
use crate::process::main_loop::MainLoop;
use crate::process::opening::{Opening, Opens};
use crate::process::overdue::Overdue;
use crate::process::signals::Signals;
use crate::process::steps::{Step, reach};
use crate::process::supervisor::Supervisor;
use crate::process::syscalls::Needs;
use crate::process::upgrade::Upgrade;
use crate::process::upgrade::activation;
use crate::process::upgrade::handover::{Handover, Predecessor, Texts};
use crate::process::upgrade::inherited::{Inherited, InheritedSocket};
use crate::process::upgrade::listeners::Changes;
use crate::process::upgrade::program::Program;
use crate::process::workers::{self, Workers};
use crate::process::{announce, daemon, limits, pidfile, privileges, syscalls};
use crate::restore::{self, LifeLimit};
use crate::server::credentials::Credentials;
use crate::server::error::UsersError;
use crate::server::open::InheritedMemory;
use crate::server::progress::Progress;
use crate::server::statistics::threads::Thread;
use crate::server::{Server, disk_tier};
use crate::session::execute::disk_threads::DiskThreads;
use crate::stop::Manner;
use crate::tls::certificates::Certificates;
use crate::users::Users;
use crate::waker::Waker;
use crate::watched::Watcher;
use crate::words::CountedNoun;

/// Runs a server until a stop is requested. Logs `warnings` first. With `-d`, starts the server in
/// the background instead, and that process logs them.
///
/// # Errors
/// Fails if the server could not start, or if its stop lost something. The error contains the
/// reason, which is in the log already, and the exit status for it.
pub fn run(options: Options, warnings: &[String]) -> Result<(), Failure> {
    log::begin(&options.log);
    let run = run_or_detach(options, warnings);
    run.inspect_err(|failure| log::error(format_args!("larderd: {failure}")))
}

fn run_or_detach(options: Options, warnings: &[String]) -> Result<(), Failure> {
    let program = Program::remember();
    if options.daemon && !daemon::is_detached() {
        return daemon::start();
    }
    let leftovers = Leftovers::default();
    let served = start(options, warnings, program, &leftovers);
    // If the server has served, the list is already empty, and nothing is removed.
    leftovers.remove();
    served
}

/// Starts a server and runs it.
fn start(
    mut options: Options,
    warnings: &[String],
    program: Program,
    leftovers: &Leftovers,
) -> Result<(), Failure> {
    let (mut ground, inherited) = prepare(&mut options, warnings)?;
    let (memory_control, memory_watch) = memory::start::start(&options, Path::new("/"));
    let InheritedState { predecessor, sockets, memory, admin, texts } = inherited;
    let entrance = Entrance::open(&options, &mut ground, sockets, admin, leftovers)?;
    let Entrance { sockets, datagrams, is_given, changes, mut http, pidfile } = entrance;
    if options.drop_privileges {
        // Before the threads start, because they inherit the capabilities of this one.
        privileges::drop_capabilities(&options)?;
    }
    let no_thread = |error| os_failure("start a thread", &error);
    let overdue = Overdue::watch(&options).map_err(no_thread)?;
    let early_stop = EarlyStop::watch(ground.early_signals, leftovers.clone(), overdue.clone());
    let early_stop = early_stop.map_err(no_thread)?;
    reach(Step::StopWatched);
    let (progress, supervisor) = (Progress::default(), &ground.supervisor);
    let opens = Opens { options: &options, sockets: &sockets, progress: &progress, supervisor };
    let handed_over = predecessor.as_ref().map(|predecessor| (predecessor, memory));
    let (cache, opening) = opens.open(handed_over, &early_stop, &mut http)?;
    overdue.note_open(&cache);
    let mut server = with_cache(options, cache, predecessor.as_ref(), &texts)?;
    server.access.certificates = ground.certificates;
    server.memory = memory_control;
    server.connections.count_max = ground.connection_count_max;
    let server = Arc::new(server);
    let options = &server.options;
    enroll(&server, &sockets, &datagrams);
    reach(Step::CacheOpen);
    // From here on the main thread never waits for the disk.
    early_stop.retire().map_err(|error| os_failure("get signals", &error))?;
    let disk_threads = DiskThreads::start(&server).map_err(no_thread)?;
    let _near = NearThreads::start(server.near.as_ref()).map_err(no_thread)?;
    conclude_restore(&server)?;
    let (inboxes, workers) = workers::start(&server, &datagrams, disk_threads.as_ref())?;
    reach(Step::WorkersRun);
    end_opening(opening, &server, &inboxes);
    reach(Step::OpeningEnded);
    http.serve(&server, wakers_of(&inboxes), disk_threads);
    start_http(&mut http, options, &progress)?;
    if let Some(pidfile) = pidfile
        && let Err(failure) = pidfile.publish(predecessor.as_ref().and_then(|of| of.pid))
    {
        end(&server, &inboxes, workers);
        restore::save(&server.cache, &server.options.restore);
        return Err(failure);
    }
    reach(Step::PidfileWritten);
    let asked = ground.signals.take();
    if predecessor.is_some() && asked.stop.is_some() {
        // The predecessor receives no message, so it continues to serve, unless it has already
        // released its directory.
        log::info(format_args!("larderd: stopped before it took over"));
        return check_left(end(&server, &inboxes, workers));
    }
    // Before the restriction, because it forbids to change files.
    changes.apply();
    let (watcher, resolver) = watch(&server, &http, supervisor).map_err(no_thread)?;
    restrict(options)?;
    match ground.detached {
        Some(detached) => detached.notify_ready(options)?,
        None => announce::listening(options, &sockets, &datagrams, &http),
    }
    match predecessor {
        // The service manager listens to the predecessor, which reports the successor.
        Some(predecessor) => predecessor.notify_ready(),
        None => supervisor.notify_ready(),
    }
    leftovers.keep();
    reach(Step::Announced);
    // Only now, because the cache belongs to the predecessor until this process serves. The
    // predecessor may have to continue.
    server.apply_memory_limit();
    let upgrade = Upgrade::new(program, datagrams, is_given);
    let listener = Listener::new(&server, sockets, inboxes.clone());
    let mut main_loop = MainLoop::new(&server, supervisor, listener, http, ground.signals, upgrade);
    (main_loop.watcher, main_loop.resolver) = (watcher, resolver);
    main_loop.watch_memory(memory_watch);
    main_loop.obey(asked);
    serve(main_loop, workers, &inboxes, &overdue)
}

/// The resources that a process acquires before it listens.
struct Ground {
    supervisor: Supervisor,
    certificates: Option<Arc<Certificates>>,
    /// Moved into the admin listener.
    tokens: Option<Tokens>,
    ports_file: Option<PathBuf>,
    detached: Option<DetachedProcess>,
    connection_count_max: usize,
    signals: Signals,
    /// A second receiver of the signals, for [`EarlyStop`].
    early_signals: Signals,
}

/// Logs the warnings, and does everything that must precede the sockets: reads the files that only
/// root may read, goes into the background, sets limits, changes the user and catches signals.
fn prepare(
    options: &mut Options,
    warnings: &[String],
) -> Result<(Ground, InheritedState), Failure> {
    let inherited = inherit()?;
    let supervisor = Supervisor::find();
    for warning in warnings {
        log::warn(format_args!("larderd: {warning}"));
    }
    // Before `-d` changes the directory, because relative paths refer to it.
    make_absolute(options)?;
    let ports_file = sockets::ports_file();
    // Before root is dropped, because other users may not be able to read the key.
    let certificates = options.tls.as_ref().map(Certificates::load).transpose();
    let certificates = certificates.map_err(|error| Failure::new(EXIT_USAGE, error))?.map(Arc::new);
    if let Some(certificates) = &certificates {
        certificates.warn(true);
    }
    let tokens = admin_tokens(options)?;
    let detached = if options.daemon { Some(daemon::leave_session(options)?) } else { None };
    let connection_count_max = limits::raise(options)?;
    privileges::drop_root(options)?;
    limits::lock_memory(options);
    // Before the sockets listen. A client that is connected assumes that the process has started,
    // and the default action of a signal would end it.
    let catch = || Signals::catch().map_err(|error| os_failure("catch signals", &error));
    let (signals, early_signals) = (catch()?, catch()?);
    reach(Step::SignalsCaught);
    let ground = Ground {
        supervisor,
        certificates,
        tokens,
        ports_file,
        detached,
        connection_count_max,
        signals,
        early_signals,
    };
    Ok((ground, inherited))
}

/// The points of entry for clients: the sockets, and the files that contain their ports and the
/// process id.
struct Entrance {
    sockets: Vec<Socket>,
    datagrams: Arc<[Datagrams]>,
    /// True if systemd has given the sockets.
    is_given: bool,
    changes: Changes,
    http: Http,
    pidfile: Option<pidfile::PreparedPidfile>,
}

impl Entrance {
    /// Opens the sockets, or uses inherited ones.
    fn open(
        options: &Options,
        ground: &mut Ground,
        handed: Option<Vec<InheritedSocket>>,
        handed_admin: Vec<OwnedFd>,
        leftovers: &Leftovers,
    ) -> Result<Self, Failure> {
        unix_socket::check_distinct(options)?;
        let Inherited { streams: sockets, datagrams, is_given, changes } =
            Inherited::or_opened(handed, options, leftovers)?;
        let datagrams: Arc<[Datagrams]> = datagrams.into();
        let http = open_http(options, ground, handed_admin, leftovers, &sockets)?;
        if let Err(failure) = sockets::write_ports(ground.ports_file.take(), &sockets, &datagrams) {
            // Only tests use this file, so the server can continue without it.
            log::warn(format_args!("larderd: {failure}"));
        }
        let pidfile = options.pidfile.as_deref();
        let pidfile =
            pidfile.map(|path| pidfile::PreparedPidfile::write(path, leftovers)).transpose()?;
        reach(Step::SocketsListen);
        Ok(Self { sockets, datagrams, is_given, changes, http, pidfile })
    }
}

/// Creates the server of an open cache.
fn with_cache(
    options: Options,
    cache: Cache,
    predecessor: Option<&Predecessor>,
    texts: &Texts,
) -> Result<Server, Failure> {
    let credentials = credentials(&options)?;
    let server = Server::with(options, credentials, cache);
    let mut server = server.map_err(|error| Failure::new(error.exit_code(), error))?;
    if let (Some(discovery), Some(cluster)) = (&server.discovery, &texts.cluster) {
        discovery.inherit(cluster).map_err(|error| Failure::new(EXIT_USAGE, error))?;
    }
    server.life_limit = match predecessor {
        Some(_) => texts.lives.as_deref().and_then(LifeLimit::parse),
        None => server.options.restore.ttl.map(|ttl| LifeLimit::begin(&server.cache, ttl)),
    };
    if let Some(limit) = server.life_limit {
        limit.apply_to_disk(&server.cache);
    }
    if let Some(pid) = predecessor.and_then(|predecessor| predecessor.pid) {
        server.succession.await_end_of(pid);
    }
    Ok(server)
}

pub(super) fn credentials(options: &Options) -> Result<Option<Credentials>, Failure> {
    Credentials::load(options)
        .map_err(|error| Failure::new(EXIT_USAGE, UsersError::new(options, error)))
}

pub(super) fn make_absolute(options: &mut Options) -> Result<(), Failure> {
    let absolute = options.make_paths_absolute(|path| path::absolute(path));
    absolute.map_err(|error| os_failure("find the directory of a relative path", &error))
}

/// Starts the thread that reads files again, and the one that resolves a name again, if there are
/// any.
fn watch(
    server: &Arc<Server>,
    http: &Http,
    supervisor: &Supervisor,
) -> io::Result<(Option<Watcher>, Option<Resolver>)> {
    let names = server.counters(Thread::Names);
    let resolver = Resolver::start(server.discovery.as_ref(), names)?;
    let mut files = server.reloaded();
    files.extend(http.reloaded_tokens());
    if files.is_empty() {
        return Ok((None, resolver));
    }
    let supervisor = supervisor.try_clone()?;
    let requests = Arc::clone(&server.access.refreshes);
    let watcher = Watcher::start(files, requests, move || supervisor.notify_ready())?;
    Ok((Some(watcher), resolver))
}

/// Installs the filter of system calls, with `-o drop_privileges`.
fn restrict(options: &Options) -> Result<(), Failure> {
    if !options.drop_privileges {
        return Ok(());
    }
    syscalls::restrict(Needs {
        removal: options.daemon && options.pidfile.is_some(),
        disk: options.disk_tier.is_some(),
    })
}

/// Runs the main loop until it ends, then ends everything else.
fn serve(
    mut main_loop: MainLoop<'_>,
    workers: Workers,
    inboxes: &[Arc<Inbox>],
    overdue: &Overdue,
) -> Result<(), Failure> {
    log::limit(true);
    main_loop.run();
    log::limit(false);
    main_loop.server.access.refreshes.close();
    overdue.begin(match main_loop.server.life.stop.requested() {
        Some(Manner::Graceful) => GRACE,
        Some(Manner::Now) | None => Duration::ZERO,
    });
    reach(Step::StopAsked);
    let server = main_loop.server;
    if main_loop.has_successor() {
        return leave(main_loop, workers, inboxes);
    }
    main_loop.supervisor.notify_stopping();
    let left = end(server, inboxes, workers);
    let is_saved = restore::save(&server.cache, &server.options.restore);
    // Last, because until then the admin listener reports that the server stops.
    main_loop.http.stop();
    reach(Step::HttpEnded);
    remove_pidfile(&server.options);
    check_left(left)?;
    match is_saved {
        true => Ok(()),
        false => Err(Failure::new(EXIT_FAILURE, "the stop lost items: see above")),
    }
}

/// Removes the pid file, as memcached does with `-d`.
fn remove_pidfile(options: &Options) {
    if let (Some(path), true) = (&options.pidfile, options.daemon) {
        pidfile::remove(path);
    }
}

/// Ends this process, which has a successor. If the successor waits for the directory, this process
/// releases it to the successor. But if a stop was requested in the meantime, this process ends the
/// successor instead, so that the service ends with this process.
fn leave(
    mut main_loop: MainLoop<'_>,
    workers: Workers,
    inboxes: &[Arc<Inbox>],
) -> Result<(), Failure> {
    let server = main_loop.server;
    workers::stop(server, inboxes, workers);
    reach(Step::WorkersEnded);
    let left = match server.options.disk_tier {
        Some(_) => disk_tier::hand_over(&server.cache),
        None => 0,
    };
    reach(Step::DirectoryLeft);
    if main_loop.is_to_stop() && main_loop.upgrade.give_up() {
        main_loop.supervisor.notify_stopping();
        remove_pidfile(&server.options);
    }
    // Until here the admin listener of this process responds for both processes. The successor's
    // begins to respond once it has the directory.
    main_loop.http.stop();
    main_loop.upgrade.release(main_loop.supervisor);
    check_left(left)
}

/// Ends the workers, then the disk tier. Returns how many bytes of changes are not on the disk.
fn end(server: &Server, inboxes: &[Arc<Inbox>], workers: Workers) -> u64 {
    server.life.stop.request(Manner::Now);
    workers::stop(server, inboxes, workers);
    reach(Step::WorkersEnded);
    let left = disk_tier::stop(&server.cache);
    reach(Step::DiskEnded);
    left
}

/// Fails if bytes of changes are not on the disk.
fn check_left(left: u64) -> Result<(), Failure> {
    match left {
        0 => Ok(()),
        left => Err(Failure::new(
            EXIT_FAILURE,
            format_args!(
                "the stop lost {} of changes that are not on the disk; a higher \
                 --tier-stop-secs gives a slow disk more time",
                CountedNoun(left, "byte"),
            ),
        )),
    }
}

/// The state that this process inherits when it starts.
struct InheritedState {
    /// The server that this process replaces.
    predecessor: Option<Predecessor>,
    /// The listening sockets; `None` if this process opens its own.
    sockets: Option<Vec<InheritedSocket>>,
    memory: Option<InheritedMemory>,
    /// The sockets of the predecessor's admin listener.
    admin: Vec<OwnedFd>,
    /// What the predecessor knew, as text.
    texts: Texts,
}

/// Receives the state from the predecessor, or the sockets from the service manager.
fn inherit() -> Result<InheritedState, Failure> {
    if let Some((predecessor, handover)) = Predecessor::find()? {
        let Handover { sockets, memory, admin, texts } = handover;
        let (predecessor, sockets) = (Some(predecessor), Some(sockets));
        return Ok(InheritedState { predecessor, sockets, memory, admin, texts });
    }
    let sockets = Some(activation::take()?).filter(|sockets| !sockets.is_empty());
    let (predecessor, memory, texts) = (None, None, Texts::default());
    Ok(InheritedState { predecessor, sockets, memory, admin: Vec::new(), texts })
}

/// Reads the tokens of the admin listener, if it exists and has a token file. Like the
/// certificates, they are read before root is dropped.
pub(super) fn admin_tokens(options: &Options) -> Result<Option<Tokens>, Failure> {
    let Some(path) = options.admin_token_file.clone().filter(|_| !options.admin_listen.is_empty())
    else {
        return Ok(None);
    };
    Tokens::open(path).map(Some).map_err(|error| {
        Failure::new(EXIT_USAGE, format_args!("option --admin-token-file: {error}"))
    })
}

fn open_http(
    options: &Options,
    ground: &mut Ground,
    handed: Vec<OwnedFd>,
    leftovers: &Leftovers,
    wire: &[Socket],
) -> Result<Http, Failure> {
    let on_wire = admin::sockets::role_on_wire(options, wire);
    let sockets = admin::sockets::open(options, handed, leftovers)?;
    Ok(Http::new(sockets, ground.tokens.take(), on_wire, ground.certificates.clone()))
}

pub(super) fn start_http(
    http: &mut Http,
    options: &Options,
    progress: &Progress,
) -> Result<(), Failure> {
    let started = http.start(options, progress);
    started.map_err(|error| os_failure("start the admin listener", &error))
}

/// Checks the file of `--users`.
pub(crate) fn check_users(path: &Path) -> Result<(), Failure> {
    let checked = Users::check(path);
    checked.map_err(|error| Failure::new(EXIT_USAGE, format_args!("option --users: {error}")))
}

/// Distributes the connections that arrived while the cache opened over the workers in turn.
fn end_opening(opening: Option<Opening>, server: &Server, inboxes: &[Arc<Inbox>]) {
    let Some(opening) = opening else { return };
    let (counters, inboxes, next) =
        (Arc::clone(server.counters(Thread::Opening)), inboxes.to_vec(), Cell::new(0));
    opening.end(Box::new(move |accepted| {
        counters.bump(Counter::ConnectionsTotal);
        counters.bump(Counter::ConnectionsCurrent);
        inboxes[next.replace((next.get() + 1) % inboxes.len())].put(accepted);
    }));
}

pub(super) fn os_failure(attempted: &str, error: &dyn std::error::Error) -> Failure {
    Failure::new(EXIT_OS, format_args!("cannot {attempted}: {error}"))
}

fn wakers_of(inboxes: &[Arc<Inbox>]) -> Vec<Arc<Waker>> {
    inboxes.iter().map(|inbox| Arc::clone(inbox.waker())).collect()
}

/// Begins to watch the lives of restored items, and removes their dump.
fn conclude_restore(server: &Server) -> Result<(), Failure> {
    let limited = server.life_limit.map(|limit| limit.watch(&server.cache, &server.life.stop));
    limited.unwrap_or(Ok(())).map_err(|error| os_failure("start a thread", &error))?;
    let removed = restore::remove(&server.options.restore);
    removed.map_err(|error| os_failure("remove the dump of --dump", &error))
}

/// Logs the size classes if commands are logged.
fn show_classes(server: &Server) {
    if server.log.interest().shows_commands() {
        let table = server.statistics.classes.table();
        table.lines().for_each(|class| log::debug(format_args!("{class}")));
    }
}

/// Adds the sockets that are open from the start to the connection table, and logs the size classes
/// if commands are logged.
fn enroll(server: &Server, sockets: &[Socket], datagrams: &[Datagrams]) {
    show_classes(server);
    let now = server.cache.now();
    for socket in sockets {
        let ends = match &socket.address {
            Address::Tcp(address) => Ends::ListeningTcp(*address),
            Address::Unix(path) => Ends::ListeningUnix(path.clone()),
        };
        server.connections.table.add(socket.descriptor.as_raw_fd(), ends, None, now);
    }
    for socket in datagrams {
        server.connections.table.add(
            socket.socket.as_raw_fd(),
            Ends::Udp(socket.address),
            None,
            now,
        );
    }
}

/// How much longer than another stop a graceful stop may take, because it still executes the
/// requests that have arrived.
const GRACE: Duration = Duration::from_secs(15);
