//! Generic netlink, as much of it as taskstats needs (include/uapi/linux/netlink.h and genetlink.h).
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE: usize = 4;
/// Of an attribute's type: its two highest bits are flags.
const TYPE_MASK: u16 = 0x3fff;
/// Of struct sk_meminfo's values, the messages there was no room for (include/uapi/linux/sock_diag.h).
const MEMINFO_DROPS: usize = 8;

fn aligned(length: usize) -> usize {
    length.div_ceil(4) * 4
}

/// A socket of NETLINK_GENERIC.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Netlink {
    /// `room_bytes`: what the kernel may keep for us until we ask.
    pub fn open(room_bytes: libc::c_int) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: plain integers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: an integer on this stack, of the length given. Where it is refused, the default stays.
        unsafe {
            let (value, length) = (&raw const room_bytes, size_of::<libc::c_int>() as u32);
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value.cast(), length);
        }
        // SAFETY: all zeros is a valid address: the kernel chooses a port.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        // SAFETY: an address on this stack, of the length given.
        let bound = unsafe {
            libc::bind(fd, (&raw const address).cast(), size_of::<libc::sockaddr_nl>() as libc::socklen_t)
        };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket, buffer: vec![0; 16 << 10] })
    }

    /// The number of a family of messages.
    pub fn family(&mut self, name: &str) -> io::Result<u16> {
        const GET_FAMILY: u8 = 3;
        const FAMILY_ID: u16 = 1;
        const FAMILY_NAME: u16 = 2;
        let mut request = Vec::new();
        let name: Vec<u8> = name.bytes().chain([0]).collect();
        append(&mut request, libc::GENL_ID_CTRL as u16, 0, GET_FAMILY, FAMILY_NAME, &name, 0);
        self.send(&request)?;
        let mut id = None;
        self.receive(|message| {
            id = attributes(message.payload?)
                .find(|(kind, _)| *kind == FAMILY_ID)
                .and_then(|(_, value)| Some(u16::from_ne_bytes(value.first_chunk().copied()?)));
            Ok(())
        })?;
        id.ok_or_else(|| io::Error::other("no answer"))
    }

    /// Send one or more messages.
    pub fn send(&self, messages: &[u8]) -> io::Result<()> {
        // SAFETY: a buffer of the length given.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), messages.as_ptr().cast(), messages.len(), 0) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Go through the messages of the next datagram, if there is one; whether there was.
    ///
    /// The kernel answers a request before `send` returns: there is nothing to wait for.
    pub fn receive(&mut self, mut each: impl FnMut(Message<'_>) -> io::Result<()>) -> io::Result<bool> {
        let length = loop {
            // SAFETY: a buffer of the length given.
            let n = unsafe {
                let (fd, buffer) = (self.socket.as_raw_fd(), self.buffer.as_mut_ptr().cast());
                libc::recv(fd, buffer, self.buffer.len(), libc::MSG_DONTWAIT)
            };
            if let Ok(n) = usize::try_from(n) {
                break n;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => return Ok(false),
                _ => return Err(error),
            }
        };
        let mut rest = &self.buffer[..length];
        while let Some(message) = Message::first(&mut rest) {
            each(message)?;
        }
        Ok(true)
    }

    /// Messages that the kernel had no room for, since the begin.
    pub fn drops(&self) -> u64 {
        let mut values = [0u32; MEMINFO_DROPS + 1];
        let mut length = size_of_val(&values) as libc::socklen_t;
        const SO_MEMINFO: libc::c_int = 55;
        // SAFETY: a buffer of the length given; older kernels leave it as it is.
        unsafe {
            let (fd, buffer) = (self.socket.as_raw_fd(), values.as_mut_ptr().cast());
            libc::getsockopt(fd, libc::SOL_SOCKET, SO_MEMINFO, buffer, &mut length);
        }
        u64::from(values[MEMINFO_DROPS])
    }
}

/// One message.
#[derive(Debug)]
pub struct Message<'a> {
    /// As in the request.
    pub sequence: u32,
    /// Its attributes; or the error the request was answered with.
    pub payload: io::Result<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Take the first message off some.
    fn first(rest: &mut &'a [u8]) -> Option<Self> {
        let header = rest.get(..HEADER)?;
        let length = u32::from_ne_bytes(*header.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(*header.get(4..)?.first_chunk()?);
        let sequence = u32::from_ne_bytes(*header.get(8..)?.first_chunk()?);
        let body = rest.get(HEADER..length)?;
        *rest = rest.get(aligned(length)..).unwrap_or_default();
        let payload = if i32::from(kind) == libc::NLMSG_ERROR {
            let code = i32::from_ne_bytes(*body.first_chunk()?);
            Err(io::Error::from_raw_os_error(-code))
        } else {
            Ok(body.get(GENERIC_HEADER..)?)
        };
        Some(Self { sequence, payload })
    }
}

/// Append a message with one attribute, and `extra` flags of its own, to some.
pub fn append(
    messages: &mut Vec<u8>,
    family: u16,
    sequence: u32,
    command: u8,
    attribute: u16,
    value: &[u8],
    extra: u16,
) {
    let length = HEADER + GENERIC_HEADER + ATTRIBUTE + value.len();
    messages.extend((length as u32).to_ne_bytes());
    messages.extend(family.to_ne_bytes());
    messages.extend((libc::NLM_F_REQUEST as u16 | extra).to_ne_bytes());
    messages.extend(sequence.to_ne_bytes());
    messages.extend([0; 4]); // port: the kernel knows it
    messages.extend([command, 1, 0, 0]); // version 1
    messages.extend(((ATTRIBUTE + value.len()) as u16).to_ne_bytes());
    messages.extend(attribute.to_ne_bytes());
    messages.extend(value);
    messages.resize(messages.len() + aligned(length) - length, 0);
}

/// The attributes in some bytes: type and value of each.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & TYPE_MASK;
        let value = bytes.get(ATTRIBUTE..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_apart_as_it_was_put_together() {
        let mut messages = Vec::new();
        append(&mut messages, 27, 5, 1, 2, &[1, 2, 3, 4, 5], 0);
        append(&mut messages, 27, 6, 1, 3, &[9], 0);
        assert_eq!(messages.len() % 4, 0);
        let mut rest = messages.as_slice();
        let first = Message::first(&mut rest).unwrap();
        assert_eq!(first.sequence, 5);
        let found: Vec<_> = attributes(first.payload.unwrap()).collect();
        assert_eq!(found, [(2, &[1u8, 2, 3, 4, 5][..])]);
        let second = Message::first(&mut rest).unwrap();
        assert_eq!(attributes(second.payload.unwrap()).next(), Some((3, &[9u8][..])));
        assert!(Message::first(&mut rest).is_none());
    }

    #[test]
    fn nonsense_ends_the_list() {
        assert_eq!(attributes(&[3, 0, 1, 0]).count(), 0);
        assert_eq!(attributes(&[200, 0, 1, 0, 7]).count(), 0);
        let mut rest = &[255u8; 40][..];
        assert!(Message::first(&mut rest).is_none());
    }

    #[test]
    fn finds_a_family_that_every_kernel_has_and_not_one_that_none_has() {
        let mut netlink = Netlink::open(1 << 16).unwrap();
        assert_eq!(netlink.family("nlctrl").unwrap(), libc::GENL_ID_CTRL as u16);
        assert_eq!(netlink.family("NO-SUCH-FAMILY").unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(netlink.drops(), 0);
    }
}
