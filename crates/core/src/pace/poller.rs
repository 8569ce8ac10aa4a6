//! epoll, one absolute timer, and sockets that connect without waiting.
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The timer's token in [`Poller::wait`].
pub const TIMER: u64 = u64::MAX;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn owned(result: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: a non-negative result of the calls used here is a new descriptor that nobody else owns.
    check(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An epoll instance with a timer in it.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed_ns: u64,
}

impl Poller {
    /// A new instance.
    pub fn new() -> io::Result<Self> {
        // SAFETY: both calls take flags only.
        let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        let timer = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        let poller = Self { epoll, timer, armed_ns: 0 };
        poller.control(libc::EPOLL_CTL_ADD, poller.timer.as_raw_fd(), TIMER, false)?;
        Ok(poller)
    }

    fn control(&self, operation: libc::c_int, fd: RawFd, token: u64, writable: bool) -> io::Result<()> {
        let interest = libc::EPOLLIN | if writable { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: interest as u32, u64: token };
        // SAFETY: both descriptors are open and the event is valid for the call.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &mut event) }).map(drop)
    }

    /// Watch a socket, for room to write too if asked.
    pub fn add(&self, socket: &TcpStream, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket.as_raw_fd(), token, writable)
    }

    /// Change whether room to write is of interest.
    pub fn modify(&self, socket: &TcpStream, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, socket.as_raw_fd(), token, writable)
    }

    /// Wake at this time of CLOCK_MONOTONIC at the latest. A timerfd, because timeouts of epoll_wait count in
    /// milliseconds.
    pub fn wake_at(&mut self, at_ns: u64) -> io::Result<()> {
        if at_ns == self.armed_ns {
            return Ok(());
        }
        self.armed_ns = at_ns;
        let value = libc::timespec {
            tv_sec: (at_ns / 1_000_000_000) as i64,
            tv_nsec: (at_ns % 1_000_000_000) as i64,
        };
        let setting =
            libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        let old = std::ptr::null_mut();
        // SAFETY: the setting is valid for the call; a null old value is allowed. Setting it clears an expiry.
        check(unsafe {
            libc::timerfd_settime(self.timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &setting, old)
        })
        .map(drop)
    }

    /// Wait for events: pairs of token and event bits. An interrupting signal gives `None`.
    pub fn wait<'a>(&mut self, room: &'a mut Vec<(u64, u32)>) -> io::Result<Option<&'a [(u64, u32)]>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        let (list, length) = (events.as_mut_ptr(), events.len() as libc::c_int);
        // SAFETY: `events` has room for `length` events.
        let n = match check(unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), list, length, -1) }) {
            Ok(n) => n as usize,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error),
        };
        room.clear();
        room.extend(events[..n].iter().map(|event| (event.u64, event.events)));
        if room.iter().any(|(token, _)| *token == TIMER) {
            self.armed_ns = 0;
            let mut expiries = [0u8; 8];
            // SAFETY: the buffer holds the eight bytes a timerfd gives. EAGAIN only means it was set again meanwhile.
            unsafe { libc::read(self.timer.as_raw_fd(), expiries.as_mut_ptr().cast(), expiries.len()) };
        }
        Ok(Some(room))
    }
}

/// A socket on its way to the address; it becomes writable when it is connected or has failed.
///
/// std's connect would wait, and a server that stalls can make that a second (a SYN is repeated after 1 s).
pub fn connect(address: &SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: plain integers.
    let socket = owned(unsafe { libc::socket(family, kind, 0) })?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    let result = match address {
        SocketAddr::V4(v4) => {
            let name = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: a valid sockaddr_in with its own size.
            unsafe { libc::connect(stream.as_raw_fd(), (&raw const name).cast(), size_of_val(&name) as u32) }
        }
        SocketAddr::V6(v6) => {
            let name = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: a valid sockaddr_in6 with its own size.
            unsafe { libc::connect(stream.as_raw_fd(), (&raw const name).cast(), size_of_val(&name) as u32) }
        }
    };
    match check(result) {
        Ok(_) => Ok(stream),
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(stream),
        Err(error) => Err(error),
    }
}
