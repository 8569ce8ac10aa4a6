//! Where a broker is, as oslo.messaging's `transport_url` says it.
use std::path::PathBuf;

use contend_core::{Error, Result};

/// Whom to trust and who we are, where the broker speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// `ssl_ca_file`: certificates of the authorities to trust, PEM; those of the system without it.
    pub ca_file: Option<PathBuf>,
    /// `ssl_cert_file`: a certificate of ours, PEM.
    pub cert_file: Option<PathBuf>,
    /// `ssl_key_file`: its key, PEM.
    pub key_file: Option<PathBuf>,
}

/// A broker's addresses and who we are there. `Debug` shows no password.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// Host names or addresses with their ports, in the order given.
    pub hosts: Vec<(String, u16)>,
    /// Who we are.
    pub user: String,
    /// Never shown.
    pub password: String,
    /// The virtual host.
    pub vhost: String,
    /// `ssl=1`; None for plain TCP.
    pub tls: Option<Tls>,
}

impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Url").field("hosts", &self.hosts).field("vhost", &self.vhost).finish_non_exhaustive()
    }
}

const SHAPE: &str = "like rabbit://USER:PASSWORD@HOST:5672/VHOST";

impl Url {
    /// `rabbit://user:password@host:port,user:password@host2:port/vhost?ssl=1&ssl_ca_file=/ca.pem`. The first host's
    /// user counts. Other options of oslo.messaging are passed over.
    ///
    /// What is wrong is told without showing the password.
    pub fn parse(text: &str) -> Result<Self> {
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| Error::invalid("the broker's URL has no scheme", SHAPE))?;
        if !matches!(scheme, "rabbit" | "amqp" | "kombu") {
            let message = format!("the broker's URL has the scheme '{scheme}', which is not RabbitMQ's");
            return Err(Error::invalid(message, SHAPE));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let tls = tls_of(query)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut who = None;
        let mut hosts = Vec::new();
        for one in authority.split(',') {
            let (credentials, address) = one.rsplit_once('@').map_or((None, one), |(c, a)| (Some(c), a));
            if who.is_none() {
                who = credentials;
            }
            hosts.push(address_of(address)?);
        }
        let (user, password) = who.map_or(("guest", "guest"), |c| c.split_once(':').unwrap_or((c, "")));
        let vhost = if path.is_empty() { "/".to_owned() } else { unquoted(path)? };
        let url = Self { hosts, user: unquoted(user)?, password: unquoted(password)?, vhost, tls };
        if url.vhost.len() > 255 {
            return Err(Error::invalid(
                "the virtual host in the broker's URL is longer than 255 bytes",
                SHAPE,
            ));
        }
        if url.user.contains('\0') || url.password.contains('\0') {
            return Err(Error::invalid("the broker's URL has a zero byte in its user or password", SHAPE));
        }
        Ok(url)
    }
}

fn tls_of(query: &str) -> Result<Option<Tls>> {
    let (mut wanted, mut tls) = (false, Tls::default());
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = unquoted(&value.replace('+', " "))?;
        let file = (!value.is_empty()).then(|| PathBuf::from(&value));
        match name {
            // As oslo.config reads a truth.
            "ssl" => match value.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => wanted = true,
                "0" | "false" | "no" | "off" => wanted = false,
                _ => {
                    let message = format!("'ssl={value}' in the broker's URL is neither true nor false");
                    return Err(Error::invalid(message, "ssl=1, or without it"));
                }
            },
            "ssl_ca_file" => tls.ca_file = file,
            "ssl_cert_file" => tls.cert_file = file,
            "ssl_key_file" => tls.key_file = file,
            _ => {}
        }
    }
    Ok(wanted.then_some(tls))
}

fn address_of(text: &str) -> Result<(String, u16)> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let wrong = || Error::invalid(format!("'{text}' in the broker's URL is no HOST:PORT"), SHAPE);
    if host.is_empty() {
        return Err(wrong());
    }
    let port = port.map_or(Ok(5672), |p| p.parse().map_err(|_| wrong()))?;
    Ok((host.to_owned(), port))
}

/// `%41` is `A` (RFC 3986, 2.1).
fn unquoted(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let code = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = code.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(code.ok_or_else(|| Error::invalid("the broker's URL has a % without two digits", SHAPE))?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid("the broker's URL is no UTF-8", SHAPE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_oslo_messaging_reads() {
        let url = Url::parse("rabbit://me:p%40ss@a:1,me:p%40ss@[::1]:2/v%2Fh").unwrap();
        assert_eq!(url.hosts, [("a".to_owned(), 1), ("::1".to_owned(), 2)]);
        assert_eq!((&*url.user, &*url.password, &*url.vhost), ("me", "p@ss", "v/h"));
        let plain = Url::parse("rabbit://broker").unwrap();
        assert_eq!(
            (&plain.hosts[0], &*plain.user, &*plain.vhost),
            (&("broker".to_owned(), 5672), "guest", "/")
        );
    }

    #[test]
    fn reads_what_tls_needs() {
        let url =
            Url::parse("rabbit://me:p@a:5671/?ssl=True&ssl_ca_file=/etc/my%20ca.pem&heartbeat=3").unwrap();
        let wanted = Tls { ca_file: Some("/etc/my ca.pem".into()), ..Tls::default() };
        assert_eq!((url.tls, &*url.vhost), (Some(wanted), "/"));
        for plain in ["rabbit://a/", "rabbit://a/?ssl=0&ssl_ca_file=/x", "rabbit://a/v?heartbeat=3"] {
            assert_eq!(Url::parse(plain).unwrap().tls, None, "{plain}");
        }
        let own = Url::parse("rabbit://a/?ssl=1&ssl_cert_file=/c&ssl_key_file=/k").unwrap().tls.unwrap();
        assert_eq!((own.cert_file, own.key_file, own.ca_file), (Some("/c".into()), Some("/k".into()), None));
    }

    #[test]
    fn mistakes_are_told_without_the_password() {
        for wrong in [
            "me:secret@host",
            "http://me:secret@host/",
            "rabbit://me:secret@host:port/",
            "rabbit://me:secret@:1/",
            "rabbit://me:secret%4@host/",
            "rabbit://me:secret@host/?ssl=perhaps",
            "rabbit://me%00:secret@host/",
            &format!("rabbit://me:secret@host/{}", "v".repeat(256)),
        ] {
            let error = Url::parse(wrong).unwrap_err();
            assert!(!format!("{error} {}", error.hint()).contains("secret"), "{wrong}");
        }
        assert!(!format!("{:?}", Url::parse("rabbit://me:secret@host/").unwrap()).contains("secret"));
    }
}
