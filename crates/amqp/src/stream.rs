//! The bytes' way to the broker: TCP, or TLS over it by rustls.
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use contend_core::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, ClientConnection, RootCertStore};

use crate::url::Tls;

/// A connected socket, as it is or inside of TLS.
#[derive(Debug)]
pub enum Stream {
    /// TCP alone.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<Session>),
}

/// A TLS session and its socket.
#[derive(Debug)]
pub struct Session {
    connection: ClientConnection,
    socket: TcpStream,
    sent: u64,
    received: u64,
}

/// Connect within `limit` for each address of the host; reads and writes of the socket wait as long, too.
pub fn connect(host: &str, port: u16, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(limit))?;
                // A broker in need of memory reads nothing more from those who publish.
                socket.set_write_timeout(Some(limit))?;
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Stream {
    /// Greet the TLS server behind that socket, which has to be `host`.
    ///
    /// Errors: a certificate that is refused, a server that refuses us, a port without TLS; all of them the user's to
    /// mend. A connection that breaks is the server's.
    pub fn secure(socket: TcpStream, host: &str, peer: &str, config: Arc<ClientConfig>) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Error::invalid(format!("'{host}' is no host name"), "see the broker's URL"))?;
        let connection = ClientConnection::new(config, name).map_err(|error| failed(peer, &error))?;
        let mut session = Session { connection, socket, sent: 0, received: 0 };
        while session.connection.is_handshaking() {
            match session.connection.complete_io(&mut session.socket) {
                Ok((received, sent)) => {
                    session.received += received as u64;
                    session.sent += sent as u64;
                }
                Err(error) => {
                    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                    return Err(tls.map_or_else(|| ended(peer, &error), |tls| failed(peer, tls)));
                }
            }
        }
        Ok(Self::Tls(Box::new(session)))
    }

    /// The socket, for those who wait for it.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(session) => &session.socket,
        }
    }

    /// Whether bytes that were taken are still here: the socket took no more.
    pub fn holds_back(&self) -> bool {
        matches!(self, Self::Tls(session) if session.connection.wants_write())
    }

    /// Bytes of TCP's payload that TLS has sent and received; None without it.
    pub fn counted(&self) -> Option<(u64, u64)> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(session) => Some((session.sent, session.received)),
        }
    }

    /// Whether less may be read than is there, so that asking again is the only way to know.
    pub fn reads_in_records(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

impl Session {
    /// Send what is encrypted, as far as the socket takes it.
    fn send(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            self.sent += self.connection.write_tls(&mut self.socket)? as u64;
        }
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let session = match self {
            Self::Plain(socket) => return socket.read(room),
            Self::Tls(session) => session,
        };
        loop {
            match session.connection.reader().read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // An end without TLS's goodbye: brokers that are killed have no time for it.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            let came = session.connection.read_tls(&mut session.socket)?;
            session.received += came as u64;
            if came == 0 {
                return Ok(0);
            }
            session.connection.process_new_packets().map_err(io::Error::other)?;
            // Keys are renewed, and alerts answered, whenever the peer wants it.
            match session.send() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => sent?,
            }
        }
    }
}

impl Write for Stream {
    /// Bytes taken; see [`Stream::holds_back`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let session = match self {
            Self::Plain(socket) => return socket.write(bytes),
            Self::Tls(session) => session,
        };
        match session.send() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
            sent => sent?,
        }
        let taken = session.connection.writer().write(bytes)?;
        match session.send() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(session) => session.send(),
        }
    }
}

/// What TLS needs, made once a connection: whom to trust, and who we are.
pub fn config(tls: &Tls) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let broken = |error: rustls::Error| Error::server(format!("TLS: {error}"), "please report it");
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(broken)?
        .with_root_certificates(authorities(tls)?);
    let config = match (&tls.cert_file, &tls.key_file) {
        (Some(cert), Some(key)) => {
            let own = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| unreadable("ssl_key_file", key, &error.to_string()))?;
            builder
                .with_client_auth_cert(certificates("ssl_cert_file", cert)?, own)
                .map_err(|error| unreadable("ssl_key_file", key, &error.to_string()))?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => {
            return Err(Error::invalid(
                "of ssl_cert_file and ssl_key_file the broker's URL names one",
                "name both, or neither",
            ));
        }
    };
    Ok(Arc::new(config))
}

fn authorities(tls: &Tls) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let (found, place, hint) = match &tls.ca_file {
        Some(file) => {
            (certificates("ssl_ca_file", file)?, file.display().to_string(), "name a file of certificates")
        }
        None => (
            rustls_native_certs::load_native_certs().certs,
            "this system".to_owned(),
            "apt-get install ca-certificates, or name an ssl_ca_file",
        ),
    };
    if store.add_parsable_certificates(found).0 == 0 {
        let message = format!("{place} has no certificate of an authority to trust");
        return Err(Error::invalid(message, hint));
    }
    Ok(store)
}

fn certificates(what: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(what, file, &error.to_string()))
}

fn unreadable(what: &str, file: &Path, why: &str) -> Error {
    let message = format!("{what} {} cannot be used: {why}", file.display());
    Error::invalid(message, "name a PEM file")
}

fn ended(peer: &str, error: &io::Error) -> Error {
    let message = format!("the broker at {peer} ended the connection while TLS began: {error}");
    Error::server(message, "does that port speak TLS? its log may say why")
}

fn failed(peer: &str, error: &rustls::Error) -> Error {
    let own = "is its certificate from whom ssl_ca_file names?";
    let (said, hint) = match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                ("its authority is not trusted here".to_owned(), own)
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                ("its certificate has expired".to_owned(), "is the clock of this host right?")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                ("its certificate is for another name".to_owned(), "name the host as its certificate does")
            }
            other => (format!("its certificate is refused: {other}"), own),
        },
        rustls::Error::AlertReceived(alert) => (
            format!("it refuses us: {alert:?}"),
            "does it want a certificate of ours? ssl_cert_file, ssl_key_file",
        ),
        rustls::Error::InvalidMessage(_) => {
            ("it speaks no TLS there".to_owned(), "another port? or leave ssl out")
        }
        other => (other.to_string(), "its log may say more"),
    };
    Error::invalid(format!("TLS with the broker at {peer} failed: {said}"), hint)
}
