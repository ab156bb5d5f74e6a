import { createHmac, timingSafeEqual } from "node:crypto";

// verify tells whether body, as it came, was signed with the secret within five minutes of now. header is that of X-Service-Signature.
export function verify(secret, header, body, now = Date.now() / 1000) {
  const [stamp, ...signatures] = header.replace(/^t=/, "").split(",");
  if (!/^[0-9]+$/.test(stamp) || Math.abs(now - Number(stamp)) > 300) return false;
  const want = Buffer.from("v0=" + createHmac("sha256", secret).update(stamp + ".").update(body).digest("hex"));
  return signatures.map((s) => Buffer.from(s)).some((s) => s.length === want.length && timingSafeEqual(s, want));
}
