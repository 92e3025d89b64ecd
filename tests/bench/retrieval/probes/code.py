"""Code, configuration, commands, tracebacks and log lines, asked by an identifier or by another spelling of it."""

from __future__ import annotations

from uuid import UUID

from tests.bench.retrieval.probes.assembling import Ask, Draw, Part

VERBS = (
    "parse",
    "load",
    "merge",
    "resolve",
    "flush",
    "validate",
    "render",
    "acquire",
    "decode",
    "schedule",
    "rotate",
    "index",
)
NOUNS = (
    "config",
    "token",
    "ledger",
    "socket",
    "schema",
    "cursor",
    "tenant",
    "invoice",
    "shard",
    "session",
    "payload",
    "header",
    "queue",
    "lease",
    "snapshot",
    "route",
)
TAILS = ("map", "pool", "batch", "window", "key", "limit", "buffer", "state")
SERVICES = ("billing", "gateway", "mailer", "catalog", "ingest", "reports", "auth", "search")
ERRORS = ("TimeoutError", "KeyError", "PermissionError", "ValueError", "ConnectionResetError", "UnicodeDecodeError")
FLAGS = ("max", "min", "no", "keep", "allow", "force", "only", "skip")

DEFINITIONS = (
    "def {snake}({noun}, *, strict=False):\n    if not {noun}:\n        return None\n"
    "    return _{tail}s[{noun}.id].{verb}()",
    "async def {snake}(self, {noun}_id: str) -> dict:\n    row = await self.{tail}.get({noun}_id)\n"
    "    return row or {{}}",
    "export function {camel}({noun}, options = {{}}) {{\n"
    "  const {tail} = options.{tail} ?? {number};\n  return {verb}({noun}, {tail});\n}}",
    "fn {snake}({noun}: &str, {tail}: usize) -> Result<(), Error> {{\n    self.{tail}.{verb}({noun})?;\n    Ok(())\n}}",
    "func {pascal}(ctx context.Context, {noun} string) error {{\n\tdefer close({tail})\n"
    "\treturn s.{verb}(ctx, {noun})\n}}",
)
CALLS = (
    "Why does {snake} get called {number} times for one {noun}?",
    "for {noun} in {tail}s:\n    {snake}({noun}, strict=True)",
    "test('{camel} keeps the {tail}', () => expect({camel}('{noun}')).toBeTruthy());",
    "I would rename {snake}, it does not {verb} anything but the {tail}.",
    "Reviewed the pull request that touches {camel} and two {noun} tests.",
)
SETTINGS = (
    "# {service}.yaml\n{service}:\n  {noun}:\n    {tail}: {number}\n    {verb}: true",
    "[{service}.{noun}]\n{tail} = {number}\n{verb}_on_start = false",
    "{service}.{noun}.{tail}={number}",
)
FAILURES = (
    'Traceback (most recent call last):\n  File "{service}/{noun}s.py", line {number}, in {snake}\n'
    "    {tail} = self._{tail}s[key]\n{error}: {noun} {code}",
    "{service} | ERROR | {code} could not {verb} {noun} after {number} ms",
    "panic: {code}: {noun} {tail} is closed\n\ngoroutine {number} [running]:\n{service}.{pascal}()",
)
COMMANDS = (
    "./{service}ctl {verb} --{flag}-{noun}-{tail} {number} --dry-run",
    "{service} {verb} {noun}s --{flag}-{noun}-{tail}={number} | tee {noun}.log",
)
COMMITS = (
    "Commit {hash}: {verb} the {noun} {tail} before the {service} starts",
    "Bisected it to {hash}, the one that touches the {noun} {tail} in {service}.",
)
REQUESTS = (
    "Request {uuid} to {service} hung for {number} s in the {noun} {tail}.",
    "The {noun} with id {uuid} is stuck in {service}, please {verb} it by hand.",
)

NAMES = 26
ASKED = 10


class Naming:
    """Words of one identifier, the spellings of it, and everything else that a snippet's slots need."""

    def __init__(self, draw: Draw) -> None:
        self.verb, self.noun, self.tail = draw.one(VERBS), draw.one(NOUNS), draw.one(TAILS)
        self.service, self.error, self.flag = draw.one(SERVICES), draw.one(ERRORS), draw.one(FLAGS)
        self.words = [self.verb, self.noun] + ([self.tail] if draw.chance(0.6) else [])
        self.number = draw.between(2, 990)
        self.code = f"{self.service[:3].upper()}-{draw.digits(4)}"
        self.hash = draw.hexadecimal(40)
        self.uuid = str(UUID(hex=draw.hexadecimal(32), version=4))

    @property
    def snake(self) -> str:
        return "_".join(self.words)

    @property
    def pascal(self) -> str:
        return "".join(word.capitalize() for word in self.words)

    @property
    def camel(self) -> str:
        return self.pascal[0].lower() + self.pascal[1:]

    def fill(self, template: str) -> str:
        return template.format(snake=self.snake, camel=self.camel, pascal=self.pascal, **vars(self))


def compose(draw: Draw) -> Part:
    part = Part()
    # Neither a name nor a setting's path comes twice.
    names: dict[tuple[str, str], Naming] = {}
    taken: set[str] = set()
    while len(names) < NAMES:
        naming = Naming(draw)
        if naming.snake not in taken:
            taken.add(naming.snake)
            names.setdefault((naming.noun, naming.tail), naming)
    kinds = draw.order(range(ASKED))
    for place, naming in enumerate(names.values()):
        definition = draw.one(DEFINITIONS)
        setting, failure, command = draw.one(SETTINGS), draw.one(FAILURES), draw.one(COMMANDS)
        commit, request = draw.one(COMMITS), draw.one(REQUESTS)
        for kind, template in (
            ("definition", definition),
            ("setting", setting),
            ("failure", failure),
            ("command", command),
            ("commit", commit),
            ("request", request),
        ):
            part.tell(
                "code", naming.fill(template), f"{kind} {naming.snake}", loose=kind == "setting" and place % 3 == 0
            )
        for template in draw.some(CALLS, draw.between(0, 3)):
            part.tell("code", naming.fill(template))
        if place < ASKED:
            text, kind = _asked(draw, naming, definition, kinds[place])
            part.asks.append(Ask(text, f"{kind} {naming.snake}", "code"))
    return part


def _asked(draw: Draw, naming: Naming, definition: str, kind: int) -> tuple[str, str]:
    """A question, and which of the identifier's rows answers it. Spelled as in the row, or as people type it."""
    exact = naming.snake if "{snake}" in definition else naming.camel if "{camel}" in definition else naming.pascal
    split = " ".join(naming.words)
    other = naming.camel if exact == naming.snake else naming.snake
    questions = (
        (f"Where is {exact} defined?", "definition"),
        (f"Show me the {split} function.", "definition"),
        (f"What does {other} return?", "definition"),
        (f"What was the definition of {'-'.join(naming.words)} again?", "definition"),
        (f"What is {naming.service}.{naming.noun}.{naming.tail} set to?", "setting"),
        (f"Which value has the {naming.noun} {naming.tail} of the {naming.service} in the configuration?", "setting"),
        (f"Who failed with {draw.one((naming.code, naming.code.lower(), naming.code.replace('-', ' ')))}?", "failure"),
        (f"How do I pass the {naming.flag} {naming.noun} {naming.tail} flag on the command line?", "command"),
        (f"What did {naming.hash[: draw.between(7, 12)]} change?", "commit"),
        (f"What happened to {draw.one((naming.uuid, naming.uuid.upper(), naming.uuid.replace('-', '')))}?", "request"),
    )
    return questions[kind]
