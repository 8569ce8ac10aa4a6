//! Netlink, as much of it as is needed here (include/uapi/linux/netlink.h).
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;
/// Of an attribute's type: its two highest bits are flags.
const TYPE_MASK: u16 = 0x3fff;
/// Of struct sk_meminfo's values, the messages there was no room for (include/uapi/linux/sock_diag.h).
const MEMINFO_DROPS: usize = 8;

/// Longer than any datagram: the kernel makes dumps of up to 32 KiB (net/netlink/af_netlink.c, netlink_recvmsg).
const LONGEST: usize = 64 << 10;

fn aligned(length: usize) -> usize {
    length.div_ceil(4) * 4
}

/// A socket to the kernel.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Of a protocol (NETLINK_ROUTE). `room_bytes`: what the kernel may keep for us until we ask.
    pub fn open(protocol: libc::c_int, room_bytes: libc::c_int) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: plain integers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
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
        Ok(Self { socket, buffer: vec![0; LONGEST] })
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
    /// NLMSG_* or a number of the protocol's own.
    pub kind: i32,
    /// As in the request.
    pub sequence: u32,
    /// What is behind its header; or the error the request was answered with.
    pub payload: io::Result<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Take the first message off some.
    fn first(rest: &mut &'a [u8]) -> Option<Self> {
        let header = rest.get(..HEADER)?;
        let length = u32::from_ne_bytes(*header.first_chunk()?) as usize;
        let kind = i32::from(u16::from_ne_bytes(*header.get(4..)?.first_chunk()?));
        let sequence = u32::from_ne_bytes(*header.get(8..)?.first_chunk()?);
        let body = rest.get(HEADER..length)?;
        *rest = rest.get(aligned(length)..).unwrap_or_default();
        let payload = if kind == libc::NLMSG_ERROR {
            let code = i32::from_ne_bytes(*body.first_chunk()?);
            Err(io::Error::from_raw_os_error(-code))
        } else {
            Ok(body)
        };
        Some(Self { kind, sequence, payload })
    }
}

/// Append a request to some: the protocol's own header, then one attribute where there is one.
pub fn append(
    messages: &mut Vec<u8>,
    kind: u16,
    flags: libc::c_int,
    sequence: u32,
    header: &[u8],
    attribute: Option<(u16, &[u8])>,
) {
    let attribute_length = attribute.map_or(0, |(_, value)| ATTRIBUTE + value.len());
    let length = HEADER + header.len() + attribute_length;
    messages.extend((length as u32).to_ne_bytes());
    messages.extend(kind.to_ne_bytes());
    messages.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    messages.extend(sequence.to_ne_bytes());
    messages.extend([0; 4]); // port: the kernel knows it
    messages.extend(header);
    if let Some((kind, value)) = attribute {
        messages.extend((attribute_length as u16).to_ne_bytes());
        messages.extend(kind.to_ne_bytes());
        messages.extend(value);
    }
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
        append(&mut messages, 27, 0, 5, &[7; 4], Some((2, &[1, 2, 3, 4, 5])));
        append(&mut messages, 28, 0, 6, &[8; 4], None);
        assert_eq!(messages.len() % 4, 0);
        let mut rest = messages.as_slice();
        let first = Message::first(&mut rest).unwrap();
        assert_eq!((first.kind, first.sequence), (27, 5));
        let payload = first.payload.unwrap();
        assert_eq!(payload[..4], [7; 4]);
        assert_eq!(attributes(&payload[4..]).collect::<Vec<_>>(), [(2, &[1u8, 2, 3, 4, 5][..])]);
        let second = Message::first(&mut rest).unwrap();
        assert_eq!((second.kind, second.payload.unwrap()), (28, &[8u8; 4][..]));
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
    fn the_kernel_answers_a_request_it_does_not_know_with_an_error() {
        let mut netlink = Netlink::open(libc::NETLINK_ROUTE, 1 << 16).unwrap();
        let mut message = Vec::new();
        append(&mut message, 0x3ff, 0, 9, &[0; 4], None);
        netlink.send(&message).unwrap();
        let mut errors = Vec::new();
        let any = netlink.receive(|message| {
            errors.push((message.sequence, message.payload.unwrap_err().raw_os_error()));
            Ok(())
        });
        assert!(any.unwrap());
        assert_eq!(errors, [(9, Some(libc::EOPNOTSUPP))]);
        assert!(!netlink.receive(|_| Ok(())).unwrap());
        assert_eq!(netlink.drops(), 0);
    }
}
