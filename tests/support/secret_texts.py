"""Secrets in the shapes that command lines, settings, URLs and errors give them; and texts that only sound like secrets."""

from __future__ import annotations

import base64
from collections.abc import Callable


def unique(kind: str, place: str) -> str:
    """A secret of twelve characters that is no word, nor a part of another: of this shape, in this place."""
    import hashlib

    return "Zq7" + hashlib.sha256(f"{kind} {place}".encode()).hexdigest()[:8] + "K"


def _basic(secret: str) -> str:
    return base64.b64encode(f"me:{secret}".encode()).decode().rstrip("=")


# The text a secret stands in. What must not be seen is the secret, or, of `basic`, its encoding.
SHAPES: dict[str, Callable[[str], str]] = {
    "option": lambda s: f"mytool --password={s} --size 4k",
    "next word": lambda s: f"mytool --token {s} --size 4k",
    "short option": lambda s: f"mytool --pw {s}",
    "passphrase": lambda s: f"gpg --batch --passphrase '{s} {s}'",
    "variable": lambda s: f"PGPASSWORD={s} psql",
    "variable of a stage": lambda s: f"API_KEY_PROD={s} deploy",
    "numbered": lambda s: f"token2={s}",
    "curl user": lambda s: f"curl -u me:{s} http://h/",
    "curl glued": lambda s: f"curl -ume:{s} http://h/",
    "mysql": lambda s: f"mysql -u root -p{s} nova",
    "mysql quoted": lambda s: f"mariadb-dump -p'{s}' nova",
    "sshpass": lambda s: f"sshpass -p {s} ssh host",
    "redis": lambda s: f"redis-cli -h cache -a {s} ping",
    "redis server": lambda s: f"redis-server --requirepass {s}",
    "ldap": lambda s: f"ldapsearch -x -D cn=me -w {s}",
    "samba": lambda s: f"smbclient -U me%{s} //h/share",
    "docker": lambda s: f"docker login -u me -p {s} registry",
    "mongo": lambda s: f"mongosh -u me -p {s} db",
    "zip": lambda s: f"zip -P {s} a.zip b",
    "ipmi": lambda s: f"ipmitool -U me -P {s} power status",
    "snmp": lambda s: f"snmpwalk -v3 -A {s} -X {s} host",
    "rabbit": lambda s: f"rabbitmqctl add_user me {s}",
    "htpasswd": lambda s: f"htpasswd -b file me {s}",
    "vault": lambda s: f"vault login {s}",
    "openssl": lambda s: f"openssl rsa -passin pass:{s}",
    "piped": lambda s: f"echo {s} | docker login --password-stdin",
    "chpasswd": lambda s: f"chpasswd <<< 'root:{s}'",
    "bearer": lambda s: f"Authorization: Bearer {s}",
    "basic": lambda s: f"Authorization: Basic {_basic(s)}",
    "basic alone": lambda s: f"sent Basic {_basic(s)}",
    "header": lambda s: f"X-Auth-Token: {s}",
    "header of an option": lambda s: f"curl -H 'X-Api-Key: {s}' http://h/",
    "cookie": lambda s: f"Cookie: session={s}; theme=dark",
    "digest": lambda s: f'Authorization: Digest username="me", response="{s}"',
    "url": lambda s: f"https://me:{s}@host/path",
    "amqp": lambda s: f"amqp://nova:{s}@rabbit:5672/",
    "go dsn": lambda s: f"me:{s}@tcp(db:3306)/nova",
    "oracle": lambda s: f"jdbc:oracle:thin:me/{s}@db:1521",
    "query": lambda s: f"https://host/?page=2&token={s}",
    "signature": lambda s: f"https://b.s3.amazonaws.com/k?X-Amz-Signature={s}",
    "api key": lambda s: f"https://maps/api?key={s}{s}",
    "hook": lambda s: f"https://hooks.slack.com/services/T01ABCDEF/B01ABCDEF/{s}{s}",
    "aws id": lambda s: f"AKIA{s.upper()}ABCD",
    "aws key": lambda s: f"aws_secret_access_key = {s}{s}{s}",
    "github": lambda s: f"cloned with ghp_{s}{s}{s}",
    "gitlab": lambda s: f"glpat-{s}{s}",
    "web token": lambda s: f"eyJhbGciOiJub25lIn0.eyJ1Ijoi{s}.{s}",
    "private key": lambda s: f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{s}\n-----END RSA PRIVATE KEY-----",
    "json": lambda s: f'{{"user": "me", "password": "{s}"}}',
    "json in json": lambda s: rf'"{{\"client_secret\": \"{s}\"}}"',
    "listed": lambda s: f'["psql", "--password", "{s}"]',
    "pair": lambda s: f"('password', '{s}')",
    "yaml": lambda s: f"db_password: '{s}'",
    "xml": lambda s: f"<password>{s}</password>",
    "netrc": lambda s: f"machine h login me password {s}",
    "sql": lambda s: f"CREATE USER me IDENTIFIED BY '{s}'",
    "said": lambda s: f"the password is '{s}'",
    "refused": lambda s: f'invalid password "{s}"',
    "windows": lambda s: f"net use /password:{s}",
    "encoded": lambda s: f"q=password%3D{s}",
    "connection": lambda s: f"Server=db;User Id=sa;Password={s};",
    "java": lambda s: f"java -Ddb.password={s} Main",
    "here string": lambda s: f"kinit me@REALM <<< {s}",
    "fed": lambda s: f'sudo -S true <<< "{s}"',
    "positional": lambda s: f"net use x: /user:me {s}",
}  # fmt: skip

# Not told from words of a language, or from what else stands in such a place. A test says when that changes.
NOT_TOLD = {
    "prose": "the password is hunterword",
    "auth": "mytool --auth hunterword",
    "fields": '["password", "hunterword"]',
    "another language": "contraseña=hunterword",
}

INNOCENT = """--token-ring
bc <<< 1+1
kinit <<< ${KERBEROS_WORD}
sudo tee /etc/motd <<< hello
password-less login
keyspace=abc123def456
cpu=token_bucket
--token-bucket 5 tokens=12
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
ghcr.io/a/b@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
commit 1873dc3f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d
https://github.com/a/b/commit/1873dc3f0a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d
f47ac10b-58cc-4372-a567-0e02b2c3d479
/system.slice/docker-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.scope
docker run -p 8080:80 nginx
podman run -u 1000:1000 -p 80:80 image
docker exec -u root:root web ls
ssh -p 22 host
tar -cpf a.tar b
ab -c 10 -n 1000 http://h/
redis-cli -h cache -p 6379 ping
curl -u admin http://h/
curl -A 'Mozilla/5.0' http://h:80/
mongod --port 27017
zip -r a.zip b
openssl speed -evp aes-256-cbc
swift build -c release
vault status
mysqlslap --concurrency=50 --iterations=10
primary key lookup
foreign_key=orders
public_key=abc
cache-key: users:1
ssh-keygen -t ed25519
basic block count
Basic authentication required
basic arithmetic operations
Basic Understanding
password is required
password must be at least 12 characters
password for 'bob' is needed
password authentication failed for user "bob"
token bucket of 100 req/s
time per token 3.2 ms
otp=28
tokenizers=fast
auth=md5
--auth basic
kubectl get secret my-secret -o yaml
secret 'my-secret' not found
passthrough=on
passes=3
ffmpeg -pass 1 -i a.mkv
x264 --pass=2
cookies=3
pid=1234 ppid=1
http://[::1]:8080/x@y
git+https://github.com/a/b@v1.0
cat /etc/passwd
echo hello | grep h
expected token 'x' in line 3
["token", "size"]
code=200
session=3
bench --keys 1000 --key-size 16
memtier_benchmark --key-prefix=k --key-maximum=1000
max_password_length=64
openstack token issue
smbclient -L host -U guest""".splitlines()


def seen(secret: str, data: bytes) -> bool:
    """Whether a secret can be read in data: as it is, in capitals, percent-encoded, or as of Basic."""
    forms = {secret, secret.upper(), secret.lower(), _basic(secret), _basic(secret)[:12]}
    return any(form.encode() in data for form in forms)
