"""TLS certificates for Dask's scheduler, workers and clients, and the authority that signs them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from okl.foundation.locations import write_private

Key = ec.EllipticCurvePrivateKey
FILES = ("ca.pem", "cert.pem", "key.pem")
ROLES = ("client", "scheduler", "worker")
VALID = timedelta(days=3650)  # both ways: a clock that is set back must not end a run
SKEW = timedelta(minutes=5)  # clocks of other machines may be behind


def self_signed() -> tuple[str, str]:
    """Return a new certificate, its own authority, and its private key, as PEM; only those with the key can connect."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _builder(_name("okl"), _name("okl"), key, VALID, VALID).sign(key, hashes.SHA256())
    return _pem(certificate), _key_pem(key)


def write_self_signed(folder: Path) -> None:
    """Write a new certificate into a folder, as --tls takes it: ca.pem, cert.pem and key.pem."""
    certificate, key = self_signed()
    _write(folder, certificate, certificate, key)


def write_tls_certificates(folder: Path, days: int = 365, hosts: tuple[str, ...] = ()) -> None:
    """Write an authority, if there is none, and certificates of every role; OSError, or ValueError for its key."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    authority, key = _authority(folder / "authority")
    for role in ROLES:
        own = ec.generate_private_key(ec.SECP256R1())
        (folder / role).mkdir(exist_ok=True)
        certificate = _signed(f"okl {role}", own, authority, key, days, ("localhost", "127.0.0.1", *hosts))
        _write(folder / role, _pem(authority), _pem(certificate), _key_pem(own))


def _authority(folder: Path) -> tuple[x509.Certificate, Key]:
    """Return the authority of a folder: read, or made."""
    if (folder / "ca.pem").exists():
        key = serialization.load_pem_private_key((folder / "ca-key.pem").read_bytes(), password=None)
        if not isinstance(key, Key):
            raise ValueError(f"{folder / 'ca-key.pem'} is not a key that this script made.")
        return x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes()), key
    key, name = ec.generate_private_key(ec.SECP256R1()), _name("okl authority")
    usage = x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(name, name, key, SKEW, VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir()
    folder.chmod(0o700)
    write_private(folder / "ca-key.pem", _key_pem(key))
    write_private(folder / "ca.pem", _pem(certificate))
    return certificate, key


def _signed(
    name: str, own: Key, authority: x509.Certificate, key: Key, days: int, hosts: tuple[str, ...]
) -> x509.Certificate:
    """Return a certificate of the authority, for both ends of a connection: a worker listens and calls."""
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    issuer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        _builder(_name(name), authority.subject, own, SKEW, timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(own.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(both, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
        .sign(key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, before: timedelta, after: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number(), now - before, now + after
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: Key) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _write(folder: Path, *texts: str) -> None:
    for name, text in zip(FILES, texts, strict=True):
        write_private(folder / name, text)
