import hashlib, hmac, time

def verify(secret: str, header: str, body: bytes, now: float | None = None) -> bool:
    """Tells whether body, as it came, was signed with the secret within five minutes of now. header is that of X-Service-Signature."""
    stamp, *signatures = header.removeprefix("t=").split(",")
    if not (stamp.isascii() and stamp.isdigit()) or abs((time.time() if now is None else now) - int(stamp)) > 300:
        return False
    want = "v0=" + hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return any(hmac.compare_digest(s.encode(), want.encode()) for s in signatures)
