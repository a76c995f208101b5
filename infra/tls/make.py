"""Make a local authority, and certificates of it for a Dask scheduler, its workers and its clients.

    python infra/tls/make.py FOLDER [--days 365] [--host NAME ...]

writes FOLDER/authority (keep its ca-key.pem away from every machine that runs work) and FOLDER/client, FOLDER/scheduler
and FOLDER/worker, each with ca.pem, cert.pem and key.pem. Run again, it keeps the authority and makes new certificates:
that is how they are renewed. It needs the package `cryptography`, which okl brings.
"""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey
ROLES = ("client", "scheduler", "worker")
AUTHORITY_DAYS = 3650
SKEW = timedelta(minutes=5)  # clocks of other machines may be behind


def make(folder: Path, days: int = 365, hosts: tuple[str, ...] = ()) -> None:
    """Write the authority, if there is none, and new certificates of it for every role."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    authority, key = _authority(folder / "authority")
    for role in ROLES:
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(f"okl {role}", own, authority, key, days, ("localhost", "127.0.0.1", *hosts))
        place = folder / role
        place.mkdir(exist_ok=True)
        _write(place / "ca.pem", authority.public_bytes(serialization.Encoding.PEM))
        _write(place / "cert.pem", certificate.public_bytes(serialization.Encoding.PEM))
        _write(place / "key.pem", _pem(own))


def _authority(folder: Path) -> tuple[x509.Certificate, Key]:
    """The authority of a folder: read, or made."""
    if (folder / "ca.pem").exists():
        key = serialization.load_pem_private_key((folder / "ca-key.pem").read_bytes(), password=None)
        if not isinstance(key, Key):
            raise ValueError(f"{folder / 'ca-key.pem'} is not a key that this script made.")
        return x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes()), key
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "okl authority")])
    usage = x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _begun(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    folder.mkdir()
    folder.chmod(0o700)
    _write(folder / "ca-key.pem", _pem(key))
    _write(folder / "ca.pem", certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def _certificate(
    name: str, own: Key, authority: x509.Certificate, key: Key, days: int, hosts: tuple[str, ...]
) -> x509.Certificate:
    """A certificate of the authority, for both ends of a connection: a worker listens and calls."""
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        _begun(subject, authority.subject, own, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(both, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
        .sign(key, hashes.SHA256())
    )


def _begun(subject: x509.Name, issuer: x509.Name, key: Key, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    """Write beside and rename, readable by this user only from the first byte on."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(content)
    beside.replace(path)


def main(words: list[str] | None = None) -> int:
    """Read the command line; write; say what to type next."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=365, help="that certificates are valid [default: 365]")
    parser.add_argument("--host", action="append", default=[], help="name or address of a machine (repeatable)")
    given = parser.parse_args(words)
    if given.days < 1:
        parser.error(f"--days {given.days}, but it takes 1 or more.")
    try:
        make(given.folder, given.days, tuple(given.host))
    except (OSError, ValueError) as error:
        print(f"{given.folder}: {error}", file=sys.stderr)
        return 1
    files = "--tls-ca-file {0}/ca.pem --tls-cert {0}/cert.pem --tls-key {0}/key.pem"
    print(f"dask scheduler --host tls://127.0.0.1 --port 8786 {files.format(given.folder / 'scheduler')}")
    print(f"dask worker tls://127.0.0.1:8786 --host tls://127.0.0.1 {files.format(given.folder / 'worker')}")
    print(f"okl train DATASET --scheduler tls://127.0.0.1:8786 --tls {given.folder / 'client'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
