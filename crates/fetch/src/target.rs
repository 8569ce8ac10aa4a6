//! Where to ask: URLs, where a redirect leads, and the proxies of the environment.
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use url::{Host, Url};

use crate::problem::{Problem, Result};

/// A place to connect to, and what to ask for there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
}

impl Target {
    /// An http or https URL.
    pub fn parse(text: &str) -> Result<Self> {
        let url = Url::parse(text).map_err(|error| {
            Problem::bad_input(
                format!("'{}' is no URL: {error}", without_secrets(text)),
                "like https://host/image.raw",
            )
        })?;
        Self::of(url)
    }

    fn of(mut url: Url) -> Result<Self> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Problem::bad_input(
                format!("'{}:' is not fetched here", url.scheme()),
                "http and https are",
            ));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(Problem::bad_input(
                format!("'{url}' names no host"),
                "like https://host/image.raw",
            ));
        }
        url.set_fragment(None);
        Ok(Self { url })
    }

    /// Where `location` leads from here (RFC 9110, 10.2.2). Never from https to http: what was asked for in private stays so.
    pub fn redirected(&self, location: &str) -> Result<Self> {
        let hint = "ask for the right URL yourself";
        let url = self.url.join(location).map_err(|_| {
            Problem::fatal(
                format!(
                    "{self} redirects to what is no URL: '{}'",
                    without_secrets(location)
                ),
                hint,
            )
        })?;
        let next = Self::of(url).map_err(|problem| {
            Problem::fatal(
                format!("{self} redirects to what cannot be: {}", problem.message),
                hint,
            )
        })?;
        if self.is_tls() && !next.is_tls() {
            return Err(Problem::fatal(
                format!("{self} redirects from https to http: {next}"),
                "fetch that URL itself, with a --checksum, if you trust the way there",
            ));
        }
        Ok(if self.same_origin(&next) {
            next.with_credentials_of(self)
        } else {
            next
        })
    }

    fn with_credentials_of(mut self, other: &Self) -> Self {
        if self.url.username().is_empty() && self.url.password().is_none() {
            // These fail for URLs without a host only.
            let _ = self.url.set_username(other.url.username());
            let _ = self.url.set_password(other.url.password());
        }
        self
    }

    /// Whether it is https.
    pub fn is_tls(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Name or address to connect to, without brackets.
    pub fn host(&self) -> String {
        match self.url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(80)
    }

    /// What the Host header holds.
    pub fn authority(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        self.url
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The path and query to ask a server for.
    pub fn path(&self) -> String {
        self.url.query().map_or_else(
            || self.url.path().to_owned(),
            |query| format!("{}?{query}", self.url.path()),
        )
    }

    /// What a proxy is asked for.
    pub fn absolute(&self) -> String {
        format!(
            "{}://{}{}",
            self.url.scheme(),
            self.authority(),
            self.path()
        )
    }

    /// Whether credentials meant for `self` may be sent to `other`.
    pub fn same_origin(&self, other: &Self) -> bool {
        self.url.origin() == other.url.origin()
    }

    /// `Basic …` of the URL's user and password, where it has them.
    pub fn authorization(&self) -> Option<String> {
        let user = self.url.username();
        let password = self.url.password();
        (!user.is_empty() || password.is_some()).then(|| {
            let pair = format!(
                "{}:{}",
                decoded(user),
                decoded(password.unwrap_or_default())
            );
            format!("Basic {}", BASE64_STANDARD.encode(pair))
        })
    }
}

/// For people: without user, password and query, which may be secrets.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}://{}{}",
            self.url.scheme(),
            self.authority(),
            self.url.path()
        )
    }
}

fn without_secrets(text: &str) -> &str {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    if text.contains('@') {
        "what was given"
    } else {
        text
    }
}

/// Percent-decoded; invalid UTF-8 is replaced.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let pair = after
            .get(..2)
            .filter(|_| first == b'%')
            .and_then(|pair| std::str::from_utf8(pair).ok());
        if let Some(byte) = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The proxy that the environment names for `target`. `variable` gives the value of an environment variable.
///
/// As curl reads them: `http_proxy` in lower case only (a web server sets HTTP_PROXY for a header of that name).
pub fn proxy(target: &Target, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Target>> {
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let either = |name: &str| set(name).or_else(|| set(&name.to_ascii_uppercase()));
    let own = if target.is_tls() {
        either("https_proxy")
    } else {
        set("http_proxy")
    };
    let Some(named) = own.or_else(|| either("all_proxy")) else {
        return Ok(None);
    };
    if either("no_proxy").is_some_and(|list| is_excepted(&target.host(), target.port(), &list)) {
        return Ok(None);
    }
    let named = named.trim();
    let whole = if named.contains("://") {
        named.to_owned()
    } else {
        format!("http://{named}")
    };
    let hint = "http proxies are spoken to; NO_PROXY excepts a host";
    let proxy = Target::parse(&whole).map_err(|problem| {
        Problem::bad_input(
            format!("the proxy of the environment: {}", problem.message),
            hint,
        )
    })?;
    if proxy.is_tls() {
        return Err(Problem::bad_input(
            format!("the proxy of the environment is spoken to by TLS: {proxy}"),
            hint,
        ));
    }
    Ok(Some(proxy))
}

/// Whether a list like `localhost,.corp.example,10.0.0.1,*` names the host.
fn is_excepted(host: &str, port: u16, list: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    list.split([',', ' '])
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .any(|entry| {
            let entry = entry.to_ascii_lowercase();
            let (name, of_port) = match entry.rsplit_once(':') {
                Some((name, number)) if !name.contains(':') => (name, number.parse::<u16>().ok()),
                _ => (entry.as_str(), None),
            };
            let name = name
                .trim_start_matches("*.")
                .trim_start_matches('.')
                .trim_matches(['[', ']']);
            let matches = name == "*"
                || host == name
                || host
                    .strip_suffix(name)
                    .is_some_and(|rest| rest.ends_with('.'));
            matches && of_port.is_none_or(|number| number == port)
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        Target::parse(text).unwrap()
    }

    #[test]
    fn what_is_asked_for_where() {
        let asked = target("https://us%40er:p%20w@[::1]:8443/a%20b?c=d#e");
        assert_eq!(
            (
                asked.host().as_str(),
                asked.port(),
                asked.authority().as_str()
            ),
            ("::1", 8443, "[::1]:8443")
        );
        assert_eq!(asked.path(), "/a%20b?c=d");
        assert_eq!(
            asked.authorization().unwrap(),
            format!("Basic {}", BASE64_STANDARD.encode("us@er:p w"))
        );
        assert_eq!(asked.to_string(), "https://[::1]:8443/a%20b");
        assert_eq!(target("http://h").absolute(), "http://h/");
    }

    #[test]
    fn what_is_no_url_is_refused_without_its_secrets() {
        for text in [
            "ftp://h/x",
            "http://",
            "nothing",
            "http://user:secret@h:99999/",
        ] {
            let problem = Target::parse(text).unwrap_err();
            assert!(
                problem.bad_input && !problem.message.contains("secret"),
                "{}",
                problem.message
            );
        }
    }

    #[test]
    fn redirects() {
        let here = target("https://h/a/b?c");
        assert_eq!(here.redirected("../d").unwrap().absolute(), "https://h/d");
        assert_eq!(here.redirected("//other/x").unwrap().host(), "other");
        let own = target("https://u:p@h/a");
        assert!(
            own.redirected("https://h/b")
                .unwrap()
                .authorization()
                .is_some()
        );
        assert!(
            own.redirected("https://h:1/b")
                .unwrap()
                .authorization()
                .is_none()
        );
        assert!(
            here.redirected("http://h/a/b")
                .unwrap_err()
                .message
                .contains("https to http")
        );
        assert!(here.redirected("file:///etc/shadow").is_err());
        for location in ["http://u:secret@h:99999/", "http://h:99999/?key=secret"] {
            let message = here.redirected(location).unwrap_err().message;
            assert!(!message.contains("secret"), "{message}");
        }
        assert!(
            !here.same_origin(&target("https://h:444/a"))
                && here.same_origin(&target("https://h:443/z"))
        );
    }

    fn proxy_of(url: &str, variables: &[(&str, &str)]) -> Option<String> {
        let found = |name: &str| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        };
        proxy(&target(url), found)
            .unwrap()
            .map(|proxy| proxy.authority())
    }

    #[test]
    fn proxies() {
        assert_eq!(
            proxy_of("http://h/", &[("http_proxy", "p:3128")]).as_deref(),
            Some("p:3128")
        );
        assert_eq!(proxy_of("http://h/", &[("HTTP_PROXY", "p:3128")]), None);
        assert_eq!(
            proxy_of("https://h/", &[("HTTPS_PROXY", "http://p:1/")]).as_deref(),
            Some("p:1")
        );
        assert_eq!(proxy_of("https://h/", &[("http_proxy", "p:1")]), None);
        assert_eq!(
            proxy_of("https://h/", &[("ALL_PROXY", "p:1")]).as_deref(),
            Some("p:1")
        );
        assert_eq!(proxy_of("http://h/", &[("http_proxy", "")]), None);
        for list in [
            "h.example",
            ".example",
            "*.example",
            "x, example",
            "*",
            "h.example:80",
        ] {
            let variables = [("http_proxy", "p:1"), ("no_proxy", list)];
            assert_eq!(proxy_of("http://h.example/", &variables), None, "{list}");
        }
        for list in ["ample", "h.example:81", "other"] {
            let variables = [("http_proxy", "p:1"), ("NO_PROXY", list)];
            assert!(
                proxy_of("http://h.example/", &variables).is_some(),
                "{list}"
            );
        }
    }

    #[test]
    fn a_proxy_that_cannot_be_spoken_to_is_said() {
        let variables = |name: &str| (name == "all_proxy").then(|| "socks5://p:1".to_owned());
        assert!(
            proxy(&target("http://h/"), variables)
                .unwrap_err()
                .message
                .contains("socks5")
        );
    }
}
