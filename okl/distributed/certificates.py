"""Certificates of the connections between this process, a scheduler and workers on one machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from okl.foundation.locations import write_private

FILES = ("ca.pem", "cert.pem", "key.pem")
VALID = timedelta(days=3650)  # both ways: a clock that is set back must not end a run


def self_signed() -> tuple[str, str]:
    """Return a new certificate, which is its own authority, and its private key, as PEM.

    Only processes with the key can connect: a scheduler and workers execute what they are sent.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "okl")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - VALID)
        .not_valid_after(now + VALID)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


def write_self_signed(folder: Path) -> None:
    """Write a new certificate into a folder, as --tls takes it: ca.pem, cert.pem and key.pem."""
    certificate, key = self_signed()
    for name, text in zip(FILES, (certificate, certificate, key), strict=True):
        write_private(folder / name, text)
