//! TLS by rustls over AWS-LC, whose AES-GCM uses half of ring's cycles here. Decrypted records are handed on where they
//! lie: rustls' buffered interface would copy them twice more.
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{UnbufferedClientConnection, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore,
    SignatureScheme,
};

use crate::order::Order;
use crate::problem::{Problem, Result};

const AES_128: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];
/// Most bytes that a handshake message of ours, or a request, takes at once.
const OUT: usize = 32 << 10;
/// Bytes of a file of certificates; those of a distribution are a quarter of a MiB.
const MOST_PEM: u64 = 16 << 20;

/// What TLS needs, made once: reading the system's authorities costs more than a handshake.
pub fn config(order: &Order) -> Result<Arc<ClientConfig>> {
    let mut provider = aws_lc_rs::default_provider();
    // AES-128 first: as sure, by everybody's account, and ten rounds a block instead of fourteen. Servers mostly take what
    // the client likes best. A stable sort: what else there is keeps its order.
    provider
        .cipher_suites
        .sort_by_key(|suite| !AES_128.contains(&suite.suite()));
    let provider = Arc::new(provider);
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| {
            Problem::fatal(
                format!("TLS: {error}"),
                "this is a mistake in contend: please report it",
            )
        })?;
    let builder = match (order.verify, &order.cacert) {
        (true, None) => builder.with_root_certificates(authorities(None)?),
        (true, Some(file)) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Given::new(file, provider)?)),
        (false, _) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody { algorithms })),
    };
    let config = match &order.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let key_of = PrivateKeyDer::from_pem_slice(&bounded(key)?)
                .map_err(|error| unreadable(key, &error.to_string()))?;
            builder
                .with_client_auth_cert(chain, key_of)
                .map_err(|error| unreadable(key, &error.to_string()))?
        }
    };
    Ok(Arc::new(config))
}

fn authorities(file: Option<&Path>) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let (added, hint) = match file {
        Some(file) => (
            store.add_parsable_certificates(certificates(file)?).0,
            "a file of PEM certificates",
        ),
        None => {
            bounded_by_environment()?;
            let found = rustls_native_certs::load_native_certs();
            (
                store.add_parsable_certificates(found.certs).0,
                "apt-get install ca-certificates, or --cacert FILE",
            )
        }
    };
    if added == 0 {
        let place = file.map_or_else(
            || "this system".to_owned(),
            |file| file.display().to_string(),
        );
        return Err(Problem::bad_input(
            format!("{place} has no certificate of an authority to trust"),
            hint,
        ));
    }
    Ok(store)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    if file.is_dir() {
        let found = rustls_native_certs::load_certs_from_paths(None, Some(file));
        return Ok(found.certs);
    }
    CertificateDer::pem_slice_iter(&bounded(file)?)
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| unreadable(file, &error.to_string()))
}

/// Look first at what `rustls_native_certs` reads to its end; of directories it reads only regular files.
fn bounded_by_environment() -> Result<()> {
    match std::env::var_os("SSL_CERT_FILE") {
        Some(file) if Path::new(&file).exists() => bounded(Path::new(&file)).map(drop),
        _ => Ok(()),
    }
}

/// The whole of a regular file: of a device there is no end, and for a FIFO nobody may ever write.
fn bounded(file: &Path) -> Result<Vec<u8>> {
    let read = || -> std::io::Result<Vec<u8>> {
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(file)?;
        if !opened.metadata()?.is_file() {
            return Err(std::io::Error::other("it is no regular file"));
        }
        let mut data = Vec::new();
        opened.take(MOST_PEM + 1).read_to_end(&mut data)?;
        if data.len() as u64 > MOST_PEM {
            return Err(std::io::Error::other("it is larger than 16 MiB"));
        }
        Ok(data)
    };
    read().map_err(|error| unreadable(file, &error.to_string()))
}

fn unreadable(file: &Path, why: &str) -> Problem {
    Problem::bad_input(
        format!("{} cannot be read: {why}", file.display()),
        "a PEM file",
    )
}

/// The certificates of a file: of authorities, or of the server itself. What `openssl req -x509` signs by itself says that
/// it is an authority, which webpki takes for no server's; who names the very certificate trusts it, as for curl.
#[derive(Debug)]
struct Given {
    trusted: Vec<CertificateDer<'static>>,
    usual: Arc<WebPkiServerVerifier>,
}

impl Given {
    fn new(file: &Path, provider: Arc<CryptoProvider>) -> Result<Self> {
        let roots = Arc::new(authorities(Some(file))?);
        let usual = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| unreadable(file, &error.to_string()))?;
        Ok(Self {
            trusted: certificates(file)?,
            usual,
        })
    }
}

/// Its time is right then: webpki looks at that first.
fn is_an_authority(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why))) = error else {
        return false;
    };
    why.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

impl ServerCertVerifier for Given {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        match self
            .usual
            .verify_server_cert(server, between, name, ocsp, now)
        {
            Err(error)
                if is_an_authority(&error) && self.trusted.iter().any(|one| one == server) =>
            {
                verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.usual
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.usual
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// The user's own wish: `verify: false` in clouds.yaml, or --insecure.
#[derive(Debug)]
struct Anybody {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// What processing the bytes of the network led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More bytes are needed.
    Receive,
    /// The peer has ended the stream, and said so.
    Closed,
}

/// One session.
pub struct Session {
    connection: UnbufferedClientConnection,
    /// Bytes to be sent.
    pub out: Vec<u8>,
    /// Whether content may be sent by now.
    pub open: bool,
}

impl Session {
    /// A session that will greet `host`.
    pub fn new(config: Arc<ClientConfig>, host: &str) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Problem::bad_input(format!("'{host}' is no host name"), "see the URL"))?;
        let connection = UnbufferedClientConnection::new(config, name)
            .map_err(|error| Problem::fatal(format!("TLS: {error}"), "is the host name right?"))?;
        Ok(Self {
            connection,
            out: Vec::new(),
            open: false,
        })
    }

    /// Process what was received. Returns what to do next and how many bytes of `incoming` are done with. Stops early
    /// when the session opens, or something is to be sent: see `open`, `out`.
    pub fn process(
        &mut self,
        incoming: &mut [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<(Next, usize)> {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state } =
                self.connection.process_tls_records(&mut incoming[done..]);
            done += discard;
            match state.map_err(|error| refused(&error))? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|error| refused(&error))?;
                        done += record.discard;
                        take(record.payload)?;
                    }
                }
                ConnectionState::EncodeTlsData(mut encode) => {
                    let at = self.out.len();
                    self.out.resize(at + OUT, 0);
                    let mut written = encode.encode(&mut self.out[at..]);
                    if let Err(EncodeError::InsufficientSize(needs)) = &written {
                        self.out.resize(at + needs.required_size, 0);
                        written = encode.encode(&mut self.out[at..]);
                    }
                    let length = written.map_err(|error| {
                        Problem::fatal(
                            format!("TLS: {error}"),
                            "this is a mistake in contend: please report it",
                        )
                    })?;
                    self.out.truncate(at + length);
                }
                // What is in `out` is sent before anything else is received.
                ConnectionState::TransmitTlsData(transmit) => transmit.done(),
                ConnectionState::BlockedHandshake => return Ok((Next::Receive, done)),
                ConnectionState::WriteTraffic(_) => {
                    self.open = true;
                    return Ok((Next::Receive, done));
                }
                ConnectionState::PeerClosed | ConnectionState::Closed => {
                    return Ok((Next::Closed, done));
                }
                _ => return Ok((Next::Receive, done)),
            }
        }
    }

    /// Encrypt `plain` into `out`.
    pub fn send(&mut self, plain: &[u8]) -> Result<()> {
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
        let ConnectionState::WriteTraffic(mut traffic) = state.map_err(|error| refused(&error))?
        else {
            return Err(Problem::passing(
                "TLS: the session ended before the request was sent",
                "try again",
            ));
        };
        let at = self.out.len();
        self.out.resize(at + plain.len() + OUT, 0);
        let length = traffic
            .encrypt(plain, &mut self.out[at..])
            .map_err(|error| {
                Problem::fatal(
                    format!("TLS: {error}"),
                    "this is a mistake in contend: please report it",
                )
            })?;
        self.out.truncate(at + length);
        Ok(())
    }
}

fn refused(error: &rustls::Error) -> Problem {
    let own = "--cacert FILE trusts an authority of your own";
    match error {
        rustls::Error::InvalidCertificate(why) => {
            let (said, hint) = match why {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    ("its authority is not trusted here".to_owned(), own)
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
                    "it has expired".to_owned(),
                    "is the clock of this host right?",
                ),
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => (
                    "it is for another name".to_owned(),
                    "is the host name right?",
                ),
                other => (format!("{other:?}"), own),
            };
            Problem::fatal(
                format!("TLS: the server's certificate is refused: {said}"),
                hint,
            )
        }
        rustls::Error::AlertReceived(alert) => Problem::fatal(
            format!("TLS: the server refuses us: {alert:?}"),
            "does it want a certificate of ours?",
        ),
        rustls::Error::InvalidMessage(_) => Problem::fatal(
            "TLS: the server speaks no TLS",
            "http instead of https? another port?",
        ),
        other => Problem::fatal(format!("TLS: {other}"), "the server's log may say more"),
    }
}
