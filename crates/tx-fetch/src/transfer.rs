//! One attempt to download a file from one address.

use std::{
    env,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use sha2::Sha256;
use ureq::{
    Agent, Body,
    config::RedirectAuthHeaders,
    http::{Response, StatusCode, header},
    tls::{PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::{
    address,
    cache::{Entry, PartRecord, Record},
    checksum::measure,
    error::FetchError,
    event::Event,
    patience::Patience,
    remote::Remote,
};
use crate::{Limits, remedy::Remedy};

/// Buffer size in bytes.
const BUFFER: usize = 64 << 10;

/// Minimum time between two progress events.
const REPORT: Duration = Duration::from_millis(100);

/// Failure of an attempt.
pub(super) enum Failure {
    /// Transient failure; a retry may succeed.
    Transient {
        problem: String,
        /// Wait requested by the server.
        wait: Option<Duration>,
    },
    /// Permanent failure of this address.
    Permanent { problem: String, remedy: Option<Remedy> },
    /// Local failure, the same for all addresses.
    Local(FetchError),
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        Self::Local(error)
    }
}

fn transient(problem: impl Into<String>) -> Failure {
    Failure::Transient { problem: problem.into(), wait: None }
}

fn permanent(problem: impl Into<String>) -> Failure {
    Failure::Permanent { problem: problem.into(), remedy: None }
}

/// Inputs of an attempt.
pub(super) struct Transfer<'a> {
    pub remote: &'a Remote,
    pub entry: &'a Entry,
    pub patience: &'a Patience,
    pub limits: Limits,
    pub show: &'a (dyn Fn(Event) + Send + Sync),
    /// Whether a file that differs from the record is accepted.
    pub refresh: bool,
}

/// Response headers about the file.
struct Offer {
    /// Offset of the first byte of this response.
    start: u64,
    total: Option<u64>,
    /// Whether the end of the response can be distinguished from a broken connection.
    delimited: bool,
    record: PartRecord,
    is_page: bool,
}

impl Transfer<'_> {
    /// Downloads the file or its missing part, checks it and moves it to its final name.
    pub fn attempt(&self, address: &str) -> Result<Record, Failure> {
        if self.remote.token.is_some() && !address::is_private(address) {
            return Err(Failure::Permanent {
                problem: "a token is not sent over an unencrypted connection".into(),
                remedy: Some(Remedy::EncryptOrDropToken),
            });
        }
        let (begun, mut have) = self.entry.begun();
        let same = begun.address == address && begun.validator().is_some();
        if have > 0 && !same || begun.total.is_some_and(|total| have > total) {
            self.entry.discard()?;
            have = 0;
        }
        if have == 0 || begun.total != Some(have) {
            let validator = begun.validator().filter(|_| have > 0);
            let response = self.request(address, have, validator)?;
            let offer = self.offer(address, &response, have, &begun)?;
            self.receive(response, &offer)?;
            return self.check(address, offer.is_page, offer.record.next);
        }
        // A complete part that has not been checked.
        self.check(address, false, begun.next)
    }

    fn request(
        &self,
        address: &str,
        have: u64,
        validator: Option<&str>,
    ) -> Result<Response<Body>, Failure> {
        let patience = self.patience;
        let agent: Agent = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(root_certificates(address)?).build())
            .user_agent(concat!("tx/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .http_status_as_error(false)
            // A redirect must not leave `https`.
            .https_only(is_https(address))
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .timeout_connect(Some(patience.connect))
            .timeout_recv_response(Some(patience.stall))
            .timeout_per_read(Some(patience.stall))
            .build()
            .into();
        let mut request = agent.get(address);
        if let Some(token) = &self.remote.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(validator) = validator {
            request = request.header(header::RANGE, format!("bytes={have}-"));
            request = request.header(header::IF_RANGE, validator);
        }
        request.call().map_err(|error| {
            let problem = error.to_string();
            match error {
                ureq::Error::Io(error) => transient(error.to_string()),
                ureq::Error::Timeout(_)
                | ureq::Error::Protocol(_)
                | ureq::Error::ConnectionFailed => transient(problem),
                _ => permanent(problem),
            }
        })
    }

    /// Checks the head of a response.
    fn offer(
        &self,
        address: &str,
        response: &Response<Body>,
        have: u64,
        begun: &PartRecord,
    ) -> Result<Offer, Failure> {
        let text = |name: header::HeaderName| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let length = response.body().content_length();
        let status = response.status();
        let (etag, last_modified) = (text(header::ETAG), text(header::LAST_MODIFIED));
        let (start, total) = match status {
            StatusCode::OK => (0, length),
            StatusCode::PARTIAL_CONTENT => {
                let range = text(header::CONTENT_RANGE);
                let sent = range.as_deref().and_then(ContentRange::parse);
                let sent = sent.filter(|sent| {
                    have > 0
                        && sent.start == have
                        && length.is_none_or(|length| length == sent.length)
                        && sent.total.zip(begun.total).is_none_or(|(now, then)| now == then)
                });
                let Some(sent) = sent else {
                    self.entry.discard()?;
                    let range = range.unwrap_or_else(|| "nothing".into());
                    return Err(transient(format!(
                        "the server sent the range `{range}`, expected the bytes from {have}"
                    )));
                };
                // With `If-Range`, the server should have sent the complete new file.
                if let Some(change) = begun.change(etag.as_deref(), last_modified.as_deref()) {
                    self.entry.discard()?;
                    return Err(transient(format!(
                        "the file has changed during the transfer: {change}"
                    )));
                }
                (have, sent.total.or(have.checked_add(sent.length)))
            }
            StatusCode::RANGE_NOT_SATISFIABLE => {
                self.entry.discard()?;
                return Err(transient("the server cannot resume the transfer"));
            }
            status => return Err(status_failure(status, text(header::RETRY_AFTER), self.remote)),
        };
        if let (Some(total), Some(size)) = (total, self.remote.size)
            && total != size
        {
            return Err(permanent(format!("the remote file has {total} bytes, expected {size}")));
        }
        let max_bytes = self.max_bytes(total);
        if let Some(total) = total.filter(|&total| total > max_bytes) {
            return Err(permanent(format!(
                "the remote file has {total} bytes, the limit is {max_bytes}"
            )));
        }
        let delimited = length.is_some() || text(header::TRANSFER_ENCODING).is_some();
        let known = self.remote.size.is_some() || self.remote.sha256.is_some();
        if !delimited && !known {
            return Err(permanent(
                "the response does not declare its length, so truncation would be undetected",
            ));
        }
        let is_page = text(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("text/html"));
        let record = PartRecord {
            address: address.into(),
            etag,
            last_modified,
            date: text(header::DATE),
            total,
            next: text(header::LINK).as_deref().and_then(next_page),
        };
        // A later partial response may omit headers of the first one.
        let record = if start > 0 { PartRecord { total, ..begun.clone() } } else { record };
        Ok(Offer { start, total, delimited, record, is_page })
    }

    /// Maximum number of bytes accepted, given the announced size `total`.
    fn max_bytes(&self, total: Option<u64>) -> u64 {
        match total.or(self.remote.size) {
            Some(_) => self.limits.download_bytes,
            None => self.limits.download_bytes.min(self.limits.unannounced_bytes),
        }
    }

    /// Appends the response to the received part.
    fn receive(&self, response: Response<Body>, offer: &Offer) -> Result<(), Failure> {
        let path = self.entry.part();
        let cannot = |source| FetchError::Cache { path: path.clone(), source };
        if offer.start == 0 {
            self.entry.discard()?;
        }
        let mut file = File::options().create(true).append(true).open(&path).map_err(cannot)?;
        file.seek(SeekFrom::End(0)).map_err(cannot)?;
        self.entry.begin(&offer.record)?;
        (self.show)(Event::Begin {
            name: self.remote.name.clone(),
            address: offer.record.address.clone(),
            have: offer.start,
            total: offer.total.or(self.remote.size),
        });
        let announced = offer.total.or(self.remote.size);
        let max_bytes = announced.unwrap_or_else(|| self.max_bytes(None));
        let mut reader = response.into_body().into_reader();
        let mut buffer = vec![0; BUFFER];
        let mut have = offer.start;
        let (mut window, mut window_start, mut reported) = (Instant::now(), have, Instant::now());
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let _: io::Result<()> = file.flush();
                    // A partial compressed response cannot be resumed.
                    if !offer.delimited {
                        self.entry.discard()?;
                    }
                    return Err(transient(format!("after {have} bytes: {error}")));
                }
            };
            if read == 0 {
                break;
            }
            have += read as u64;
            if have > max_bytes {
                self.entry.discard()?;
                let limit = if announced.is_some() { "expected" } else { "allowed" };
                return Err(permanent(format!("received more than the {max_bytes} bytes {limit}")));
            }
            file.write_all(&buffer[..read]).map_err(cannot)?;
            if reported.elapsed() > REPORT {
                (self.show)(Event::Bytes(have));
                reported = Instant::now();
            }
            if window.elapsed() >= self.patience.stall {
                let least = self.patience.slowest as f64 * window.elapsed().as_secs_f64();
                if ((have - window_start) as f64) < least {
                    let speed = self.patience.slowest;
                    return Err(transient(format!(
                        "transfer slower than {speed} bytes per second"
                    )));
                }
                (window, window_start) = (Instant::now(), have);
            }
        }
        (self.show)(Event::Bytes(have));
        match announced {
            Some(all) if have < all => {
                Err(transient(format!("the connection ended after {have} of {all} bytes")))
            }
            _ => Ok(()),
        }
    }

    /// Checks the received file and moves it to its final name.
    fn check(&self, address: &str, is_page: bool, next: Option<String>) -> Result<Record, Failure> {
        let part = self.entry.part();
        let (size, sha256) = measure::<Sha256>(&part)
            .map_err(|source| FetchError::Cache { path: part.clone(), source })?;
        let refuse = |failure: Failure| {
            self.entry.discard()?;
            Err(failure)
        };
        if size == 0 {
            return refuse(permanent("the remote file is empty"));
        }
        if is_page && !self.remote.name.ends_with(".html") && begins_as_page(&part) {
            return refuse(permanent("received an HTML page instead of the file"));
        }
        if let Some(expected) = self.remote.size
            && size != expected
        {
            return refuse(permanent(format!("received {size} bytes, expected {expected}")));
        }
        if let Some(published) = self.remote.published {
            let problem = published.problem(&part);
            let problem = problem.map_err(|source| FetchError::Cache { path: part, source })?;
            if let Some(problem) = problem {
                return refuse(permanent(problem));
            }
        }
        let before = self.entry.record().filter(|_| !self.refresh).map(|record| record.sha256);
        if let Some(expected) = self.remote.sha256.as_ref() {
            if !sha256.eq_ignore_ascii_case(expected) {
                return refuse(permanent(format!("SHA-256 {sha256}, expected {expected}")));
            }
        } else if let Some(before) = before
            && before != sha256
        {
            return refuse(Failure::Permanent {
                problem: format!("SHA-256 {sha256}, but {before} at the first download"),
                remedy: Some(Remedy::TrustAnew),
            });
        }
        let record = Record {
            key: self.remote.key.clone(),
            address: address.into(),
            size,
            sha256,
            pinned: self.remote.sha256.is_some() || self.remote.published.is_some(),
            next,
        };
        self.entry.keep(&record)?;
        Ok(record)
    }
}

/// Returns `true` for `https` in any case.
fn is_https(address: &str) -> bool {
    address.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// Trusted certificates: those in `SSL_CERT_FILE`, or else Mozilla's.
fn root_certificates(address: &str) -> Result<RootCerts, Failure> {
    let named = env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty());
    let Some(path) = named.filter(|_| is_https(address)) else {
        return Ok(RootCerts::WebPki);
    };
    let unusable = |problem: String| {
        let path = Path::new(&path).display();
        permanent(format!("`SSL_CERT_FILE` names `{path}`: {problem}"))
    };
    let pem = fs::read(&path).map_err(|error| unusable(error.to_string()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|e| unusable(e.to_string()))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(unusable("the file contains no certificate".into()));
    }
    Ok(RootCerts::from(certificates))
}

/// Failure for a status other than success.
fn status_failure(status: StatusCode, retry_after: Option<String>, remote: &Remote) -> Failure {
    let problem = format!("the server responded with {status}");
    let transient = matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error();
    if transient {
        let wait = retry_after.and_then(|text| parse_retry_after(text.trim(), SystemTime::now()));
        return Failure::Transient { problem, wait };
    }
    let remedy = match status.as_u16() {
        401 | 403 if remote.token.is_none() => Some(Remedy::GiveToken),
        401 | 403 => Some(Remedy::OtherToken),
        _ => None,
    };
    Failure::Permanent { problem, remedy }
}

/// Parses `Retry-After`: seconds or a date.
fn parse_retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let until = || httpdate::parse_http_date(text).ok();
    let seconds = text.parse().ok().map(Duration::from_secs);
    seconds.or_else(|| until().map(|date| date.duration_since(now).unwrap_or_default()))
}

/// `Content-Range` header of a partial response: `bytes 100-199/200`.
#[derive(Debug, PartialEq, Eq)]
struct ContentRange {
    start: u64,
    length: u64,
    /// Size of the complete file, if sent.
    total: Option<u64>,
}

impl ContentRange {
    fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (start, last) = range.split_once('-')?;
        let (start, last): (u64, u64) = (start.trim().parse().ok()?, last.trim().parse().ok()?);
        let total = match total.trim() {
            "*" => None,
            total => Some(total.parse().ok().filter(|&total| last < total)?),
        };
        Some(Self { start, length: last.checked_sub(start)?.checked_add(1)?, total })
    }
}

/// Parses the address of `<…>; rel="next"`.
fn next_page(text: &str) -> Option<String> {
    text.split(',').find_map(|link| {
        let (address, relation) = link.split_once('>')?;
        let next = relation.contains("rel=\"next\"");
        next.then(|| address.trim().trim_start_matches('<').to_owned())
    })
}

fn begins_as_page(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_end(&mut head));
    let head = String::from_utf8_lossy(&head).trim_start().to_lowercase();
    read.is_ok() && (head.starts_with("<!doctype html") || head.starts_with("<html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of RFC 9110, sections 14.4 and 10.2.3.
    #[test]
    fn ranges_and_waits_are_read() {
        let part = |start, length, total| Some(ContentRange { start, length, total });
        assert_eq!(ContentRange::parse("bytes 42-1233/1234"), part(42, 1_192, Some(1_234)));
        assert_eq!(ContentRange::parse("bytes 42-1233/*"), part(42, 1_192, None));
        for none in
            ["bytes */1234", "bytes 5-4/10", "bytes 5-10/10", "bytes 0-18446744073709551615/*"]
        {
            assert_eq!(ContentRange::parse(none), None, "{none}");
        }

        let date = "Fri, 31 Dec 1999 23:59:59 GMT";
        let now = httpdate::parse_http_date("Fri, 31 Dec 1999 23:58:00 GMT").unwrap();
        assert_eq!(parse_retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(parse_retry_after(date, now), Some(Duration::from_secs(119)));
        assert_eq!(parse_retry_after(date, now + Duration::from_secs(300)), Some(Duration::ZERO));
        assert_eq!(parse_retry_after("soon", now), None);
    }
}
