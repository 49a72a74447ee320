"""Checks the sources against the rules of docs/architecture.md and CONTRIBUTING.md.

usage: check_sources.py SOURCE_ROOT

  layers      which folder may include which, and that only wiring names concrete transports
  calls       no getenv outside the two places that read the environment, no sleep, no rand, no printing from the
              library, no clock but base/clock
  sizes       files up to 450 lines, functions up to 80; ratchet.txt lists what is tolerated
  variables   every TUTTI_ name in the documentation exists
  leftovers   no marks of unfinished work
Prints one line per offence, as file:line: what, and what to do. Exit status 1 when there is any.
"""

import re
import sys
from pathlib import Path

MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 80

# folder -> folders whose headers it may include, besides its own and include/tutti. The longest matching folder counts.
LAYERS = {
    "src/base": [],
    "src/plan": ["src/base"],
    "src/topo": ["src/base"],
    "src/reduce": ["src/base"],
    "src/bootstrap": ["src/base"],
    "algorithms": ["src/base", "src/plan", "src/topo/fabric.h"],
    "transports": ["src/base", "transports/transport.h", "transports/plugin.h"],
    "src/engine": ["src/base", "src/plan", "src/reduce", "transports/transport.h"],
    # Devices: kernels and what launches them.
    "src/cuda": ["src/base", "src/plan", "src/reduce", "src/engine", "src/topo", "transports/transport.h"],
    "transports/p2p": ["src/base", "transports/transport.h", "src/plan", "src/engine", "src/cuda", "src/topo/path_class.h"],
    # Pure: what an operation costs and which is cheapest, from facts that src/comm gathers.
    "src/tune": ["src/base", "src/plan", "src/topo", "algorithms"],
    "src/comm": ["src/base", "src/plan", "src/topo", "src/tune", "src/reduce", "src/bootstrap", "src/engine", "src/cuda",
                 "algorithms", "transports/transport.h"],
    "src/comm/wiring.cc": ["src/base", "src/plan", "src/topo", "src/tune", "src/reduce", "src/bootstrap", "src/engine", "src/cuda",
                           "algorithms", "src/comm", "transports"],
    "src/comm/transport_rows.cc": ["src/base", "src/cuda", "src/comm", "transports"],
    # CommInitFromEnv: the launcher's environment is read where the process meets the library.
    "src/api": ["src/base", "src/comm", "src/bootstrap/launcher.h"],
    # Tools use the public header; `tutti` also prints what is pure: plans, algorithms, predictions, the table of variables.
    "tools": ["src/base", "src/plan", "src/topo", "src/tune", "algorithms"],
    "include": [],
}

LIBRARY = ("src/", "transports/", "algorithms/")

# (pattern, folders it is banned in, files where it is allowed, what to do instead)
BANNED = [
    (r"\b(?:secure_)?getenv\b", ("src/", "transports/", "algorithms/"),
     ("src/base/config.cc", "src/bootstrap/launcher.cc"), "take it from the Config, a row of the table in src/base/config.cc"),
    (r"(?<![\w.])(?:u|nano|clock_nano)?sleep\s*\(|\bsleep_(?:for|until)\b", ("",), (), "wait for the event itself"),
    (r"(?<![\w.:>])s?rand\s*\(", ("",), (), "use base/rng.h, whose runs repeat"),
    (r"(?<![\w:>.])(?:std::)?(?:printf|puts|putchar)\s*\(|\bstd::(?:cout|cerr|clog)\b|\bfmt::print\b", LIBRARY, (),
     "the library logs through base/log.h and never writes to stdout"),
    (r"\bchrono::\w*clock\b|\bclock_gettime\b|\bgettimeofday\b", LIBRARY, ("src/base/clock.cc",),
     "read time from a Clock (base/clock.h), so that the simulator can replace it"),
    (r"(?<![\w.:>])(?:abort|exit|_exit|quick_exit)\s*\(", LIBRARY, (), "return a Status; the library never ends its process"),
    (r"\bgoto\b", ("",), (), "use RAII and early return"),
]

LEFTOVERS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
SOURCE_FOLDERS = ("include", "src", "transports", "algorithms", "tools", "tests", "perf", "bindings")


def strip_comments(text: str, keep_strings: bool = False) -> str:
    """Blanks comments (and string contents), keeping every line where it was."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.*?)\)\1"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)

    def blank(match):
        token = match.group(0)
        if token[0] != "/":
            return token if keep_strings else '""' + "\n" * token.count("\n")
        return " " + "\n" * token.count("\n")

    return pattern.sub(blank, text)


def functions(text: str):
    """Yields (name, first line, lines) of each function definition of C or C++ source, lambdas counting to their owner."""
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda m: "\n" * m.group(0).count("\n"), strip_comments(text), flags=re.MULTILINE)
    stack, head_start, depth_in_function = [], 0, 0
    for match in re.finditer(r"[{};]|\b(?:public|private|protected)\s*:", code):
        token, position = match.group(0), match.start()
        if token == "{":
            if depth_in_function:
                depth_in_function += 1
                continue
            head = code[head_start:position].strip()
            name = function_name(head)
            if name:
                first = code.count("\n", 0, head_start + len(code[head_start:position]) - len(code[head_start:position].lstrip())) + 1
                stack.append((name, first))
                depth_in_function = 1
            else:
                stack.append(None)
                head_start = match.end()
        elif token == "}":
            if depth_in_function > 1:
                depth_in_function -= 1
                continue
            if stack:
                opened = stack.pop()
                if depth_in_function == 1:
                    depth_in_function = 0
                    yield opened[0], opened[1], code.count("\n", 0, position) + 2 - opened[1]
            head_start = match.end()
        elif not depth_in_function:
            head_start = match.end()


def function_name(head: str):
    """The name when `head {` opens a function body, else None."""
    if re.match(r"(?:inline\s+)?namespace\b|extern\s+\"", head) or "(" not in head:
        return None
    flat = head
    while True:  # drop what stands in parentheses and template brackets, innermost first
        shorter = re.sub(r"\([^()]*\)", "#", flat)
        if shorter == flat:
            break
        flat = shorter
    if re.search(r"(?<!operator)(?<![=!<>])=(?!=)", re.sub(r"operator\s*\S+?(?=#)", "", flat)) or re.search(r"\b(?:class|struct|enum|union)\s+\w+[^#]*$", flat):
        return None
    name = re.search(r"([\w:~]+(?:\s*operator\s*\S+?)?)\s*#", flat)
    if not name:
        return None
    if name.group(1) in ("TEST", "TEST_F", "TEST_P", "TYPED_TEST"):
        arguments = re.search(r"\(\s*(\w+)\s*,\s*(\w+)", head)
        return f"{arguments.group(1)}.{arguments.group(2)}" if arguments else name.group(1)
    return name.group(1)


def resolve(root: Path, including: Path, target: str):
    """The project's file that an #include names, as the compiler looks for it; None for other libraries' headers."""
    for base in (including.parent, root / "include", root / "src", root, root / "tools"):
        candidate = (base / target).resolve()
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root).as_posix()
    return None


def owner(path: str):
    matches = [folder for folder in LAYERS if path == folder or path.startswith(folder + "/")]
    return max(matches, key=len) if matches else None


def check_layers(root: Path, path: str, text: str):
    layer = owner(path)
    if layer is None:
        return
    allowed = LAYERS[layer] + ["include"]
    own = "/".join(path.split("/")[:2]) if path.startswith(("src/", "transports/")) else path.split("/")[0]
    for number, line in enumerate(strip_comments(text, keep_strings=True).splitlines(), 1):
        included = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
        target = included and resolve(root, root / path, included.group(1))
        if not target or target.startswith(own + "/"):
            continue
        if not any(target == folder or target.startswith(folder + "/") for folder in allowed):
            yield f"{path}:{number}: {own} may not include {target}; it may include {', '.join(allowed)}"


def check_calls(path: str, text: str):
    code = strip_comments(text)
    for pattern, folders, exempt, instead in BANNED:
        if path in exempt or not path.startswith(folders):
            continue
        for match in re.finditer(pattern, code):
            yield f"{path}:{code.count(chr(10), 0, match.start()) + 1}: {match.group(0).strip()} is not used here: {instead}"


def check_sizes(path: str, text: str, ratchet: dict, used: set):
    def over(key, size, limit, where):
        tolerated = ratchet.get(key)
        if size <= limit:
            return
        used.add(key)
        if tolerated is None or size > tolerated:
            yield f"{where}: {' '.join(key[1:])} has {size} lines, at most {tolerated or limit} are allowed: split it"

    yield from over((path, "lines"), text.count("\n"), MAX_FILE_LINES, path)
    for name, line, lines in functions(text):
        yield from over((path, "function", name), lines, MAX_FUNCTION_LINES, f"{path}:{line}")


def check_leftovers(path: str, text: str):
    for number, line in enumerate(text.splitlines(), 1):
        found = LEFTOVERS.search(line)
        if found:
            yield f"{path}:{number}: {found.group(0)}: finish it, or file it where work is tracked"


def known_names(root: Path):
    """Every TUTTI_ name that exists: variables of the table, macros, CMake options."""
    names = set()
    for path in [root / "src/base/config.cc", *sorted((root / "src/base").glob("config*.cc"))]:
        if path.is_file():
            names |= set(re.findall(r'"(TUTTI_[A-Z0-9_]+)"', path.read_text()))
    for pattern, expression in (("include/**/*.h*", r"\bTUTTI_[A-Z0-9_]+"), ("src/**/*.h", r"#define (TUTTI_[A-Z0-9_]+)"),
                                ("**/CMakeLists.txt", r"\bTUTTI_[A-Z0-9_]+"), ("cmake/*.cmake", r"\bTUTTI_[A-Z0-9_]+")):
        for path in root.glob(pattern):
            if "build" not in path.relative_to(root).parts:
                names |= set(re.findall(expression, path.read_text()))
    return names


def check_documentation(root: Path, path: str, text: str, names: set):
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"\bTUTTI_[A-Z0-9]+(?:_[A-Z0-9]+)*\b(?!_)", line):
            if name not in names:
                yield f"{path}:{number}: {name} is in no table: add it to src/base/config.cc or correct the page"


def read_ratchet(path: Path):
    entries = {}
    for line in path.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            *key, size = line.split()
            entries[tuple(key)] = int(size)
    return entries


def check(root: Path):
    offences, used = [], set()
    ratchet_path = root / "tests/layering/ratchet.txt"
    ratchet = read_ratchet(ratchet_path) if ratchet_path.is_file() else {}
    names = known_names(root)
    for folder in SOURCE_FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            path = file.relative_to(root).as_posix()
            if file.suffix not in (".h", ".hpp", ".cc", ".c"):
                continue
            text = file.read_text()
            offences += check_layers(root, path, text)
            offences += check_calls(path, text)
            offences += check_sizes(path, text, ratchet, used)
            offences += check_leftovers(path, text)
    for pattern in ("*.md", "docs/**/*.md", "algorithms/*.md", "transports/**/*.md"):
        for file in sorted(root.glob(pattern)):
            path = file.relative_to(root).as_posix()
            offences += check_documentation(root, path, file.read_text(), names)
            offences += check_leftovers(path, file.read_text())
    for key in sorted(set(ratchet) - used):
        offences.append(f"tests/layering/ratchet.txt: '{' '.join(key)}' is no longer over the limit: remove the line")
    return offences


if __name__ == "__main__":
    found = check(Path(sys.argv[1]).resolve())
    print("\n".join(found) if found else "the sources keep the rules")
    sys.exit(1 if found else 0)
