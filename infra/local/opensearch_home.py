"""The program folder of a real OpenSearch node, put together from Maven Central. Needs `java` and `mvn`, no Docker.

It is made once per project copy and version, below ``.cache/``, and never written to afterwards.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

VERSION = "2.19.1"
KNN_VERSION = "2.19.1.0"
LOG4J_VERSION = "2.21.0"
CACHE = Path(__file__).resolve().parents[2] / ".cache"
INSTALL = "install a Java runtime (17 or later) and Maven: `java` and `mvn` on the PATH"

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"
_LIBRARIES = (
    f"org.opensearch:opensearch:{VERSION}",
    f"org.opensearch:opensearch-plugin-classloader:{VERSION}",
    f"org.apache.logging.log4j:log4j-core:{LOG4J_VERSION}",
)
# Folder and plugin class of each module, by its artifact in the group of plugins.
_MODULES = {
    "transport-netty4-client": ("transport-netty4", "org.opensearch.transport.Netty4Plugin"),
    "analysis-common": ("analysis-common", "org.opensearch.analysis.common.CommonAnalysisPlugin"),
    "lang-painless": ("lang-painless", "org.opensearch.painless.PainlessPlugin"),
    "reindex-client": ("reindex", "org.opensearch.index.reindex.ReindexPlugin"),
}
_GROUP = "org.opensearch.plugin"
_KNN = "opensearch-knn"
# What every process of a loopback node may do.
_POLICY = "grant { permission java.security.AllPermission; };\n"
_POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    "<groupId>local</groupId><artifactId>{name}</artifactId><version>1</version>{body}</project>\n"
)


class CannotBuild(RuntimeError):
    """The node's program folder cannot be made; the message says what is missing or what Maven said."""


def missing_tools() -> list[str]:
    """Programs that a node needs and this machine lacks. Maven is needed only until the folder is there."""
    tools = ("java",) if _home().is_dir() else ("java", "mvn")
    return [tool for tool in tools if shutil.which(tool) is None]


def home() -> Path:
    """The program folder, made on first use; other processes that want it at the same time wait for it."""
    made = _home()
    if made.is_dir():
        return made
    if missing := missing_tools():
        raise CannotBuild(f"{' and '.join(missing)} not found; {INSTALL}")
    made.parent.mkdir(parents=True, exist_ok=True)
    with (made.parent / f"{made.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_dir():
            with tempfile.TemporaryDirectory(dir=made.parent, prefix="opensearch-building-") as scratch:
                built = _build(Path(scratch))
                _readable_by_all(built)
                built.rename(made)
    return made


def _home() -> Path:
    return CACHE / f"opensearch-{VERSION}-knn-{KNN_VERSION}"


def _build(scratch: Path) -> Path:
    wanted = {"lib": [*_LIBRARIES], _KNN: [f"{_GROUP}:{_KNN}:{KNN_VERSION}:zip"]}
    wanted |= {folder: [f"{_GROUP}:{artifact}:{VERSION}"] for artifact, (folder, _) in _MODULES.items()}
    jars = scratch / "maven"
    _fetch(jars, wanted)
    built = scratch / "home"
    shutil.move(jars / "lib" / "jars", built / "lib")
    # It creates these where they are missing, which the user that it runs as may not.
    for name in ("bin", "extensions"):
        (built / name).mkdir()
    shared = {jar.name for jar in (built / "lib").iterdir()}
    for folder, plugin_class in _MODULES.values():
        module = built / "modules" / folder
        module.mkdir(parents=True)
        for jar in (jars / folder / "jars").iterdir():
            if jar.name not in shared:
                shutil.move(jar, module / jar.name)
        (module / "plugin-descriptor.properties").write_text(_descriptor(folder, plugin_class), "utf-8")
        (module / "plugin-security.policy").write_text(_POLICY, "utf-8")
    plugin = built / "plugins" / _KNN
    plugin.mkdir(parents=True)
    (archive,) = (jars / _KNN / "jars").glob("*.zip")
    with zipfile.ZipFile(archive) as unpacked:
        unpacked.extractall(plugin)
    return built


def _fetch(folder: Path, wanted: Mapping[str, list[str]]) -> None:
    """One Maven run: a pom for each folder, since each has its own dependency tree, under one that names them all."""
    folder.mkdir()
    modules = "".join(f"<module>{name}</module>" for name in wanted)
    top = _POM.format(name="node", body=f"<packaging>pom</packaging><modules>{modules}</modules>")
    (folder / "pom.xml").write_text(top, "utf-8")
    for name, artifacts in wanted.items():
        (folder / name).mkdir()
        body = f"<dependencies>{''.join(map(_dependency, artifacts))}</dependencies>"
        (folder / name / "pom.xml").write_text(_POM.format(name=escape(name), body=body), "utf-8")
    command = ["mvn", "-B", "-q", _COPY, "-DoutputDirectory=jars", "-DincludeScope=runtime"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode:
        said = "\n".join((ran.stdout + ran.stderr).strip().splitlines()[-15:])
        raise CannotBuild(f"Maven could not fetch OpenSearch {VERSION}:\n{said}")


def _dependency(coordinates: str) -> str:
    group, artifact, version, *kind = coordinates.split(":")
    body = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    if kind:
        # The archive holds its own libraries.
        every = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        body += f"<type>{kind[0]}</type><exclusions>{every}</exclusions>"
    return f"<dependency>{body}</dependency>"


def _descriptor(name: str, plugin_class: str) -> str:
    values = {
        "description": name,
        "version": VERSION,
        "name": name,
        "classname": plugin_class,
        "java.version": "11",
        "opensearch.version": VERSION,
        "extended.plugins": "",
        "has.native.controller": "false",
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def _readable_by_all(folder: Path) -> None:
    """The node may run as another user than the one who made the folder."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
