"""Secrets that a text names, and text that only looks so."""

import time

from hypothesis import given
from hypothesis import strategies as st

from alhena.config.environment import without_secrets
from tests.support.each import for_each

SECRET = "s3cr3tV@lue"
NAMED = (
    "API_KEY=s3cr3tV@lue cmd",
    "export TOKEN=s3cr3tV@lue",
    "export TOKEN='s3cr3tV@lue two' && x",
    'TOKEN="s3cr3tV@lue" cmd',
    "TOKEN=$'s3cr3tV@lue' cmd",
    "DB_PASSWORD=s3cr3tV@lue MYSQL_PWD=s3cr3tV@lue mysql",
    "env API_TOKEN=s3cr3tV@lue cmd",
    "mysql -ps3cr3tV@lue db",
    "mysql -u root -ps3cr3tV@lue",
    "mysql -uroot -p's3cr3tV@lue' -e x",
    "mysqldump -ps3cr3tV@lue",
    "mariadb -u x -ps3cr3tV@lue",
    "sshpass -p s3cr3tV@lue ssh x",
    "sshpass -ps3cr3tV@lue ssh x",
    "docker login -u x -p s3cr3tV@lue",
    "curl -u user:s3cr3tV@lue http://x",
    "curl --user user:s3cr3tV@lue x",
    "curl -uuser:s3cr3tV@lue x",
    "curl --user=user:s3cr3tV@lue x",
    'curl -u "user:s3cr3tV@lue" x',
    "https://user:s3cr3tV@lue@host/x",
    "postgres://user:s3cr3tV@lue@host/db",
    "git clone https://s3cr3tV@lue@github.com/x",
    "password=s3cr3tV@lue",
    "password: s3cr3tV@lue",
    "token: s3cr3tV@lue",
    "Password: s3cr3tV@lue",
    '"apiKey": "s3cr3tV@lue"',
    "'api_key': 's3cr3tV@lue'",
    '{"token":"s3cr3tV@lue"}',
    '{\\"token\\": \\"s3cr3tV@lue\\"}',
    "api-key: s3cr3tV@lue",
    "X-Api-Key: s3cr3tV@lue",
    "curl -H 'X-Api-Key: s3cr3tV@lue' x",
    "curl -H 'Authorization: Bearer s3cr3tV@lue'",
    "Authorization: Bearer s3cr3tV@lue",
    "Authorization: Basic s3cr3tV@lue",
    "authorization: token s3cr3tV@lue",
    '"Authorization": "Bearer s3cr3tV@lue"',
    "Authorization=s3cr3tV@lue",
    "Proxy-Authorization: Basic s3cr3tV@lue",
    "Cookie: session=s3cr3tV@lue; a=b",
    "Set-Cookie: sid=s3cr3tV@lue",
    "--password s3cr3tV@lue",
    "--password=s3cr3tV@lue",
    "--token s3cr3tV@lue x",
    "--api-key 's3cr3tV@lue'",
    "--client-secret=s3cr3tV@lue",
    "redis-cli -a s3cr3tV@lue ping",
    "ldapsearch -w s3cr3tV@lue",
    "unzip -P s3cr3tV@lue a",
    "7z x -ps3cr3tV@lue a",
    "openssl enc -pass pass:s3cr3tV@lue",
    "openssl -passin pass:s3cr3tV@lue",
    "wget --http-password=s3cr3tV@lue",
    "?api_key=s3cr3tV@lue&x=1",
    "http://x/?access_token=s3cr3tV@lue",
    "password: |\n  s3cr3tV@lue\n  s3cr3tV@lue\nnext: 1",
    "secret: >-\n  s3cr3tV@lue\n",
    'password = "s3cr3tV@lue\ns3cr3tV@lue"',
    "PASSWORD='a\ns3cr3tV@lue'",
    "my_secret_key = 's3cr3tV@lue'",
    "secretKey: 's3cr3tV@lue'",
    "AWS_SECRET_ACCESS_KEY=s3cr3tV@lue",
    "aws_secret_access_key = s3cr3tV@lue",
    "passphrase: s3cr3tV@lue",
    "Server=x;Password=s3cr3tV@lue;",
    "client_secret=s3cr3tV@lue",
    "private_key: s3cr3tV@lue",
    "smbclient -U user%s3cr3tV@lue",
    "API_KEY=s3cr3tV@lue\\ more cmd",
    "set TOKEN=s3cr3tV@lue",
    "$env:TOKEN = 's3cr3tV@lue'",
    "token => 's3cr3tV@lue'",
    "password:=s3cr3tV@lue",
    "GITHUB_TOKEN: s3cr3tV@lue",
    "bearer s3cr3tVlue",
    "npm config set //r/:_authToken=s3cr3tV@lue",
    "//registry/:_authToken=s3cr3tV@lue",
    "_password=s3cr3tV@lue",
    "password+=s3cr3tV@lue",
    "echo API_KEY=s3cr3tV@lue > .env",
    "PGPASSWORD=s3cr3tV@lue psql",
    "heroku config:set TOKEN=s3cr3tV@lue",
    "docker run -e API_KEY=s3cr3tV@lue img",
    "docker run --env DB_PASS=s3cr3tV@lue img",
    "-Dpassword=s3cr3tV@lue",
    "--header='X-Auth-Token: s3cr3tV@lue'",
    "token:s3cr3tV@lue",
    "password:\ts3cr3tV@lue",
    "USER_PASSWORD: 's3cr3tV@lue'",
    "<password>s3cr3tV@lue</password>",
    "kubectl create secret generic x --from-literal=password=s3cr3tV@lue",
    "jwt=s3cr3tV@lue",
    "PASSWORD = s3cr3tV@lue",
    "curl -x http://u:s3cr3tV@lue@p x",
    "curl -d 'user=x&password=s3cr3tV@lue' x",
    'curl -d \'{"password":"s3cr3tV@lue"}\' x',
    "mysql --user=x --password=s3cr3tV@lue",
    "twine upload -u x -p s3cr3tV@lue",
    "ftp://u:s3cr3tV@lue@h",
    "mongosh -u a -p s3cr3tV@lue",
    'PASSWORD="a\\"s3cr3tV@lue"',
)

ORDINARY = (
    "token: count",
    "token: str",
    "def f(token: str, password=None):",
    "max_tokens=5",
    "max_tokens: 4096",
    "password=None",
    "token = get_token()",
    "token=self.token",
    "password: required",
    "the token: it expires",
    "key=value",
    "sorted(x, key=len)",
    "primary_key=True",
    "API_KEY=$KEY cmd",
    "export TOKEN=${TOKEN:-}",
    '--token "$TOKEN"',
    "password = os.environ['X']",
    "token count: 12",
    "tokens: 1200",
    "secret: bool = False",
    "TOKEN=$(cat f) cmd",
    'curl -u "$USER:$PASS" x',
    "git log -p",
    "git add -p file",
    "mkdir -p a/b",
    "cp -p a b",
    "ssh -p 22 h",
    "docker run -p 80:80 x",
    "ls -u x",
    "sort -u file",
    "pytest -p no:x",
    "keys: a, b",
    "if token == expected:",
    "cookie: yes",
    "author: x",
    "monkey=5",
    "password",
    "Passwords are long.",
    "api_key: Optional[str]",
    "print(token)",
    "auth: none",
    "token_type: bearer",
    "tokenizer=fast",
    "useradd -u 1000:1000 x",
    "docker run -u 1000:1000 img",
    "docker run --user 1000:1000 img",
    "rsync -u a:b c",
    "PWD=/home/x",
    "OLDPWD=/x",
    "KEYBOARD=us",
    "session: x",
    "token: Token",
    "password: ********",
    "'token': token,",
    "secret = secret",
    "npm -p x",
    "password=password",
    "token: number;",
    "PASSWORD=<your password>",
    "tar -p x",
    "token=",
    "password: ",
    "https://host/path?x=1",
    "class Token: pass",
    "const token = await getToken();",
    "return { token: response.token }",
    "path: /a/token:b",
    "unzip -p a.zip",
    "mysql -P 3306 x",
    'token="$(cat file)"',
)


@for_each("text", NAMED)
def test_a_secret_is_redacted_where_a_name_an_option_or_a_header_says_so(text: str) -> None:
    redacted = without_secrets(f"run: {text}")
    assert "s3cr3t" not in redacted
    assert "[redacted]" in redacted
    assert redacted.startswith("run: ")


@for_each("text", ORDINARY)
def test_ordinary_text_and_code_stay(text: str) -> None:
    assert without_secrets(text) == text


def test_what_is_around_a_secret_stays() -> None:
    assert without_secrets("API_KEY=abc1 cmd -x") == "API_KEY=[redacted] cmd -x"
    assert without_secrets('{"apiKey": "a b", "c": 1}') == '{"apiKey": "[redacted]", "c": 1}'
    assert without_secrets("mysql -pabc1 db") == "mysql -p[redacted] db"
    assert without_secrets("curl -u me:abc1 http://x") == "curl -u me:[redacted] http://x"


@given(st.text("tokenpaswrd_=:\"'\\ \n$-{}", max_size=60))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = without_secrets(text)
    assert without_secrets(once) == once


@for_each("text", ("a" * 50_000, "token: " * 7_000, "mysql " * 8_000, "a-" * 25_000, '"' * 50_000))
def test_long_text_is_redacted_in_time(text: str) -> None:
    begun = time.process_time()
    without_secrets(text)
    assert time.process_time() - begun < 2
