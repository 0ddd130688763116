//! TLS as a client: from the options of the configuration to a `rustls` configuration.
//!
//! Certificates and keys in files are read again for each new connection; only when a file's text has
//! changed is the configuration built anew. Connections are kept, so this is rare.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::Error;
use crate::config::http_client::{Pem, Source, Tls, TlsVersion};

/// The one provider of cryptography in this process.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())).clone()
}

/// The TLS options of one client, and what was last made of them.
pub(super) struct Connector {
    options: Tls,
    built: Mutex<Option<(Texts, Arc<ClientConfig>)>>,
}

/// The texts that a configuration was built from.
#[derive(PartialEq, Eq)]
struct Texts {
    ca: Option<String>,
    identity: Option<(String, String)>,
}

impl Connector {
    /// # Errors
    /// Versions that do not exist here, and texts in the options that are not what they should be.
    /// Files are looked at when a connection needs them.
    pub(super) fn new(options: &Tls) -> Result<Self, Error> {
        versions(options)?;
        let connector = Connector { options: options.clone(), built: Mutex::new(None) };
        let files = [
            options.ca.as_ref(),
            options.identity.as_ref().map(|(certificate, _)| certificate),
            options.identity.as_ref().map(|(_, key)| key),
        ];
        let only_texts = files.iter().flatten().all(|pem| matches!(pem, Source::Inline(_)));
        if only_texts && (options.ca.is_some() || options.identity.is_some()) {
            connector.configuration()?;
        }
        Ok(connector)
    }

    /// The name to expect in the certificate of `host`.
    pub(super) fn server_name(&self, host: &str) -> Result<ServerName<'static>, Error> {
        let name = self.options.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned()).map_err(|_| {
            Error::tls(host, format!("{name:?} is no name that a certificate can have"))
        })
    }

    /// The configuration for a new connection. Reads the files; allocates.
    pub(super) fn configuration(&self) -> Result<Arc<ClientConfig>, Error> {
        let texts = self.read()?;
        let mut built = self.built.lock();
        if let Some((from, configuration)) = &*built
            && *from == texts
        {
            return Ok(configuration.clone());
        }
        let configuration = Arc::new(self.build(&texts)?);
        *built = Some((texts, configuration.clone()));
        Ok(configuration)
    }

    fn read(&self) -> Result<Texts, Error> {
        Ok(Texts {
            ca: self.options.ca.as_ref().map(|pem| text(pem, "ca")).transpose()?,
            identity: match &self.options.identity {
                None => None,
                Some((certificate, key)) => Some((text(certificate, "cert")?, text(key, "key")?)),
            },
        })
    }

    fn build(&self, texts: &Texts) -> Result<ClientConfig, Error> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&versions(&self.options)?)
            .map_err(|error| Error::options(format!("tls_config: {error}")))?;
        let builder = if self.options.insecure_skip_verify {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(provider())))
        } else {
            builder.with_root_certificates(match &texts.ca {
                Some(pem) => roots_of(pem, &described(self.options.ca.as_ref(), "ca"))?,
                None => native_roots(),
            })
        };
        let mut configuration = match &texts.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let (certificate_source, key_source) =
                    self.options.identity.as_ref().expect("the texts were read from it");
                let chain =
                    certificates(certificate, &described(Some(certificate_source), "cert"))?;
                let where_key = described(Some(key_source), "key");
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                    .map_err(|error| Error::options(format!("tls_config: {where_key}: {error}")))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    Error::options(format!("tls_config: certificate and key: {error}"))
                })?
            }
        };
        configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(configuration)
    }
}

fn versions(options: &Tls) -> Result<Vec<&'static rustls::SupportedProtocolVersion>, Error> {
    // TLS 1.0 and 1.1 as a minimum allow more than is spoken here, which is no reason to refuse; as
    // a maximum they leave nothing.
    let oldest = options.min_version.unwrap_or(TlsVersion::Tls12);
    let newest = options.max_version.unwrap_or(TlsVersion::Tls13);
    let mut versions = Vec::with_capacity(2);
    if oldest <= TlsVersion::Tls12 && newest >= TlsVersion::Tls12 {
        versions.push(&rustls::version::TLS12);
    }
    if newest >= TlsVersion::Tls13 {
        versions.push(&rustls::version::TLS13);
    }
    if versions.is_empty() {
        return Err(Error::options(
            "tls_config: min_version and max_version leave no version; TLS 1.2 and 1.3 are spoken",
        ));
    }
    Ok(versions)
}

fn text(pem: &Pem, field: &str) -> Result<String, Error> {
    match pem {
        Source::Inline(text) => Ok(text.reveal().to_owned()),
        Source::File(path) => read_file(path, &format!("tls_config: {field}_file")),
    }
}

fn read_file(path: &Path, field: &str) -> Result<String, Error> {
    std::fs::read_to_string(path)
        .map_err(|error| Error::secret(format!("{field}: cannot read {}: {error}", path.display())))
}

fn described(pem: Option<&Pem>, field: &str) -> String {
    match pem {
        Some(Source::File(path)) => format!("{field}_file {}", path.display()),
        _ => field.to_owned(),
    }
}

fn certificates(pem: &str, source: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Error::options(format!("tls_config: {source}: {error}")))?;
    if found.is_empty() {
        return Err(Error::options(format!("tls_config: {source}: holds no PEM certificate")));
    }
    Ok(found)
}

fn roots_of(pem: &str, source: &str) -> Result<Arc<RootCertStore>, Error> {
    let mut roots = RootCertStore::empty();
    // One by one: a bundle is as good as the certificates in it that can be read.
    let blocks = pem.split("-----BEGIN ").skip(1);
    let found = blocks.filter_map(|block| {
        CertificateDer::from_pem_slice(format!("-----BEGIN {block}").as_bytes()).ok()
    });
    let (added, _) = roots.add_parsable_certificates(found);
    if added == 0 {
        return Err(Error::options(format!(
            "tls_config: {source}: holds no PEM certificate that can be read"
        )));
    }
    Ok(Arc::new(roots))
}

/// What the machine trusts, read once.
fn native_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    ROOTS
        .get_or_init(|| {
            let mut roots = RootCertStore::empty();
            let native = rustls_native_certs::load_native_certs();
            for error in &native.errors {
                tracing::warn!(%error, "Part of the machine's certificates cannot be read");
            }
            roots.add_parsable_certificates(native.certs);
            Arc::new(roots)
        })
        .clone()
}

/// `insecure_skip_verify`: any certificate will do; signatures are still checked against it.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
