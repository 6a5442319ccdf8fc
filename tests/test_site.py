"""Reads every page of the built book in a browser."""

import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "book" / "_build" / "html"
sys.path.insert(0, str(ROOT / "tools"))

import browser  # noqa: E402

pytestmark = pytest.mark.site

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}

# What a page must be, and what to do where it is not.
ASPECTS = {
    "head": "give the page a title without TeX, and book/_config.yml a "
    "language",
    "console": "the browser reports it: mend the script or the missing file",
    "requests": "a page may load only what the book itself holds: take the "
    "resource out, or put it into book/_static",
    "tex": "mend the formula in the .md (blank lines around $$, a macro that "
    "MathJax knows), then `make notebooks book`",
    "roles": "mend the reference in the .md (`{eq}`label``, no space in "
    "between), then `make notebooks book`",
    "alt": "add `mystnb: {image: {alt: ...}}` to the cell that draws it, "
    "then `make notebooks book`",
    "width": "break the line or the table, or let it scroll in its own box "
    "(book/_static/book.css), then `make book`",
    "links": "mend the link in the .md, then `make notebooks book`",
    "contrast": "choose colours at least 4.5 apart (3 for large text) in "
    "book/_static/book.css, then `make book`",
}

# Text that a reader sees: not code, not what MathJax has set.
READ = r"""
() => {
  const skip = 'code, pre, script, style, noscript, textarea, mjx-container';
  const walker = document.createTreeWalker(
    document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.data.trim() && !node.parentElement.closest(skip))
      texts.push(node.data);
  }
  const figure = img => {
    const box = img.closest('figure');
    const name = box?.id ? `figure ${box.id}` : img.getAttribute('src');
    return name.slice(0, 120);
  };
  return {
    lang: document.documentElement.lang,
    title: document.title,
    texts,
    unset: [...document.querySelectorAll('.math')]
      .filter(e => !e.querySelector('mjx-container'))
      .map(e => e.textContent.trim().slice(0, 80)),
    merrors: [...document.querySelectorAll('mjx-merror')]
      .map(e => e.getAttribute('data-mjx-error') || e.textContent),
    mute: [...document.images]
      .filter(e => !e.getAttribute('alt')?.trim()
        || e.getAttribute('alt') === e.getAttribute('src'))
      .map(figure),
    links: [...document.querySelectorAll('a[href]')].map(e => e.href),
  };
}
"""

# What is folded is part of the page.
UNFOLD = r"""
() => {
  for (const e of document.querySelectorAll('details')) e.open = true;
  for (const e of document.querySelectorAll('.toggle-hidden'))
    e.classList.remove('toggle-hidden');
}
"""

# The elements that stick out to the right, the innermost only.
WIDE = r"""
() => {
  const page = document.scrollingElement;
  if (page.scrollWidth <= innerWidth) return [];
  const boxed = e => {
    for (let up = e.parentElement; up && up !== document.body;
         up = up.parentElement)
      if (getComputedStyle(up).overflowX !== 'visible') return true;
    return false;
  };
  const out = [...document.body.querySelectorAll('*')].filter(
    e => e.getBoundingClientRect().right > innerWidth + 1 && !boxed(e));
  const inner = out.filter(e => !out.some(o => o !== e && e.contains(o)));
  const name = e => `<${e.localName} class="${e.className}"> ` +
    `${Math.round(e.getBoundingClientRect().right)} px: ` +
    e.textContent.trim().replace(/\s+/g, ' ').slice(0, 60);
  return [`${page.scrollWidth} px wide on a screen of ${innerWidth} px`,
          ...inner.slice(0, 3).map(name)];
}
"""

# Text too near in colour to what it stands on (WCAG 2.1, 1.4.3).
PALE = r"""
theme => {
  document.documentElement.dataset.theme = theme;
  const rgba = text => {
    const v = text.match(/[\d.]+/g).map(Number);
    const c = text.startsWith('color(')
      ? v.slice(0, 3).map(x => 255 * x) : v.slice(0, 3);
    return [...c, v.length > 3 ? v[3] : 1];
  };
  const over = (a, b) =>
    [0, 1, 2].map(i => a[3] * a[i] + (1 - a[3]) * b[i]).concat(1);
  const light = c => [0, 1, 2].map(i => c[i] / 255)
    .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
  const grounds = new Map();
  const ground = e => {
    if (!e) return theme === 'dark' ? [18, 18, 18, 1] : [255, 255, 255, 1];
    if (!grounds.has(e)) {
      const own = rgba(getComputedStyle(e).backgroundColor);
      grounds.set(e, over(own, ground(e.parentElement)));
    }
    return grounds.get(e);
  };
  const seen = new Set(), found = [];
  for (const e of document.body.querySelectorAll('*')) {
    const text = [...e.childNodes]
      .filter(n => n.nodeType === 3 && n.data.trim()).map(n => n.data.trim());
    if (!text.length || e.closest('.headerlink, mjx-container, :disabled')
        || !e.checkVisibility({opacityProperty: true,
                               visibilityProperty: true})) continue;
    const style = getComputedStyle(e), size = parseFloat(style.fontSize);
    const big = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const back = ground(e), front = over(rgba(style.color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const key = style.color + back;
    if (ratio >= (big ? 3 : 4.5) || seen.has(key)) continue;
    seen.add(key);
    found.push(`${theme}: ${ratio.toFixed(2)} for <${e.localName} ` +
      `class="${e.className}"> ${text[0].slice(0, 40)}`);
  }
  return found;
}
"""

RAW_TEX = re.compile(
    r"\\[(\[]|\$\$|\\begin\{|\\[a-zA-Z]+\{"
    r"|\$[^\s$](?:[^$\n]{0,200}[^\s$])?\$(?!\d)"
)
ROLE = re.compile(r"\{(?:eq|ref|numref|doc|term|math|cite|prf|download)\b")


@dataclass
class Server:
    """A folder, served on this machine."""

    folder: Path
    url: str


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def serve(folder: Path):
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield Server(folder, f"http://127.0.0.1:{httpd.server_port}/")
        httpd.shutdown()


def built_pages() -> list[str]:
    """The pages there are, as paths below the site's root."""
    return sorted(
        path.relative_to(SITE).as_posix()
        for path in SITE.rglob("*.html")
        if not {"_static", "_sources"} & set(path.relative_to(SITE).parts)
    )


def chapters() -> list[str]:
    name = re.compile(r"notebooks/\d\d[a-z]?_")
    return [p for p in built_pages() if name.match(p)]


@pytest.fixture(scope="session")
def chromium():
    with browser.launch() as started:
        yield started


@pytest.fixture(scope="session")
def book_site():
    if not (SITE / "index.html").is_file():
        pytest.fail(f"{SITE} has no site: run `make book`", pytrace=False)
    yield from serve(SITE)


@functools.cache
def anchors(file: Path) -> frozenset[str]:
    text = file.read_text(encoding="utf-8")
    return frozenset(re.findall(r'\b(?:id|name)="([^"]+)"', text))


def dead(server: Server, links: list[str]) -> list[str]:
    """The links into the site that lead nowhere."""
    found = []
    for link in dict.fromkeys(links):
        if not link.startswith(server.url):
            continue
        parts = urlsplit(link)
        file = server.folder / unquote(parts.path).lstrip("/")
        if file.is_dir():
            file /= "index.html"
        anchor = unquote(parts.fragment)
        name = link.removeprefix(server.url)
        if not file.is_file():
            found.append(f"no page {name}")
        elif anchor and file.suffix == ".html" and anchor not in anchors(file):
            found.append(f"no anchor {name}")
    return found


def inspect(
    chromium, server: Server, page: str, screen: dict[str, int] = PHONE
) -> dict[str, list[str]]:
    """Loads a page once; what is wrong with it, by aspect."""
    wrong: dict[str, list[str]] = {aspect: [] for aspect in ASPECTS}

    def ours(url: str) -> bool:
        return url.startswith((server.url, "data:", "blob:", "about:"))

    def requested(request):
        if not ours(request.url):
            wrong["requests"].append(f"leaves the site: {request.url}")

    def failed(request):
        if ours(request.url):
            wrong["requests"].append(f"failed: {request.url}")

    def answered(response):
        if response.status >= 400:
            wrong["requests"].append(f"{response.status}: {response.url}")

    def said(message):
        if message.type in ("error", "warning"):
            wrong["console"].append(f"{message.type}: {message.text}")

    tab = chromium.new_page(viewport=screen, color_scheme="light")
    tab.on("request", requested)
    tab.on("requestfailed", failed)
    tab.on("response", answered)
    tab.on("console", said)
    tab.on("pageerror", lambda e: wrong["console"].append(f"exception: {e}"))
    tab.goto(server.url + page, wait_until="load")
    # Formulas set, fonts there, and no colour on its way to another.
    tab.evaluate(
        "async () => { await window.MathJax?.startup?.promise;"
        " await document.fonts.ready; }"
    )
    tab.add_style_tag(content="* { transition: none !important; }")
    tab.evaluate(UNFOLD)
    seen = tab.evaluate(READ)
    if not seen["lang"]:
        wrong["head"].append("<html> has no lang")
    if not seen["title"].strip() or RAW_TEX.search(seen["title"]):
        wrong["head"].append(f"the title is {seen['title']!r}")
    for text in seen["texts"]:
        for aspect, pattern in (("tex", RAW_TEX), ("roles", ROLE)):
            if match := pattern.search(text):
                around = text[max(0, match.start() - 40) : match.end() + 40]
                wrong[aspect].append(" ".join(around.split()))
    wrong["tex"] += [f"not set by MathJax: {t}" for t in seen["unset"]]
    wrong["tex"] += [f"MathJax: {t}" for t in seen["merrors"]]
    wrong["alt"] += [f"no alternative text: {name}" for name in seen["mute"]]
    wrong["links"] += dead(server, seen["links"])
    wrong["width"] += tab.evaluate(WIDE)
    for theme in ("light", "dark"):
        wrong["contrast"] += tab.evaluate(PALE, theme)
    tab.close()
    return wrong


@pytest.fixture(scope="session")
def report(chromium, book_site):
    """What is wrong with a page; each page is loaded once."""
    return functools.cache(functools.partial(inspect, chromium, book_site))


def looked_at() -> list[str]:
    # index.html only leads to the first page. Without a site there is one
    # page to fail on.
    return [p for p in built_pages() if p != "index.html"] or ["index.html"]


@pytest.mark.parametrize("aspect", ASPECTS)
@pytest.mark.parametrize("page", looked_at())
def test_page(page, aspect, report):
    wrong = report(page)[aspect]
    listed = "\n  ".join(dict.fromkeys(wrong))
    assert not wrong, f"{page}:\n  {listed}\n{ASPECTS[aspect]}"


def test_page_on_a_desk_with_both_sidebars(chromium, book_site):
    wrong = inspect(chromium, book_site, "book/intro.html", DESK)
    assert not any(wrong.values()), wrong


def test_index_leads_to_the_first_page(chromium, book_site):
    tab = chromium.new_page()
    tab.goto(book_site.url)
    tab.wait_for_url("**/book/intro.html", timeout=10_000)
    tab.close()


def test_pages_are_those_of_the_table_of_contents(book_site):
    toc = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text("utf-8"))
    listed = {f"{toc['root']}.html"} | {
        f"{chapter['file']}.html"
        for part in toc["parts"]
        for chapter in part["chapters"]
    }
    extra = {"index.html", "search.html", "genindex.html"}
    assert set(built_pages()) - extra == listed, "run `make clean book`"


@pytest.mark.parametrize("page", chapters())
def test_numbers_begin_with_the_chapters_own(page, book_site):
    number = re.match(r"notebooks/0*(\d+[a-z]?)_", page)[1]
    text = (SITE / page).read_text(encoding="utf-8")
    numbers = re.findall(
        r'<span class="section-number">([\da-z.]+)'
        r'|<span class="eqno">\(([\da-z.]+)'
        r'|<span class="caption-number">\D*(\d[\da-z.]*)',
        text[text.index("<article") : text.index("</article")],
    )
    firsts = {"".join(found).split(".")[0] for found in numbers}
    appendix = page.startswith("notebooks/9")  # has no numbers
    assert firsts == (set() if appendix else {number})


def test_search_finds_a_chapter(chromium, book_site):
    tab = chromium.new_page()
    tab.goto(book_site.url + "search.html?q=transformer")
    tab.wait_for_selector("#search-results li a", timeout=20_000)
    tab.close()


# ---- The checks themselves can fail --------------------------------------

BROKEN = r"""<!doctype html>
<html><head><meta charset="utf-8"><title>$x^2$</title>
<style>html { font: 16px sans-serif }</style></head>
<body>
<p>Raw \(x\) and {eq}`label`.</p>
<p class="math">\frac{1}{2}</p>
<img src="missing.png">
<img src="http://example.invalid/there.png" alt="elsewhere">
<details><summary>more</summary><p style="width: 700px">wide</p></details>
<p style="color: #bbb; background: #fff">pale</p>
<a href="#nowhere">dead</a> <a href="gone.html">dead</a>
<script>console.error("no"); undefined_name();</script>
</body></html>
"""

SOUND = r"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sound</title>
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"></head>
<body style="background: #fff; color: #000">
<p id="here">It costs $5, or <code>\(x\) {eq}`label`</code>.</p>
<pre style="overflow: auto; width: 200px">a line of code that scrolls in its
own box because it is far too long for the two hundred pixels it has</pre>
<img src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA="
 alt="nothing">
<a href="#here">here</a> <a href="https://example.org">elsewhere</a>
</body></html>
"""


@pytest.fixture(scope="module")
def verdicts(chromium, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "broken.html").write_text(BROKEN, encoding="utf-8")
    (folder / "sound.html").write_text(SOUND, encoding="utf-8")
    server = serve(folder)
    at = next(server)
    yield {
        name: inspect(chromium, at, f"{name}.html")
        for name in ("broken", "sound")
    }
    server.close()


@pytest.mark.parametrize(
    ("aspect", "said"),
    [
        ("head", "no lang"),
        ("head", "title"),
        ("console", "error: no"),
        ("console", "undefined_name"),
        ("requests", "leaves the site: http://example.invalid"),
        ("requests", "404"),
        ("tex", r"Raw \(x\)"),
        ("tex", "not set by MathJax"),
        ("roles", "{eq}"),
        ("alt", "missing.png"),
        ("width", "wide"),
        ("links", "no anchor broken.html#nowhere"),
        ("links", "no page gone.html"),
        ("contrast", "pale"),
    ],
)
def test_check_notices_a_broken_page(aspect, said, verdicts):
    assert any(said in problem for problem in verdicts["broken"][aspect])


@pytest.mark.parametrize("aspect", ASPECTS)
def test_check_lets_a_sound_page_pass(aspect, verdicts):
    assert verdicts["sound"][aspect] == []


# ---- The builder can refuse ------------------------------------------------


@pytest.fixture
def little_book(tmp_path):
    """A copy of the book without chapters, to break; and how to build it."""
    ignore = shutil.ignore_patterns("_build", "__pycache__")
    shutil.copytree(ROOT / "book", tmp_path / "book", ignore=ignore)
    shutil.copytree(ROOT / "tools", tmp_path / "tools", ignore=ignore)
    toc = "format: jb-book\nroot: book/intro\nchapters:\n{}"
    chapter = "  - file: book/references\n"
    (tmp_path / "book" / "_toc.yml").write_text(toc.format(chapter))
    intro = tmp_path / "book" / "intro.md"
    intro.write_text("# A little book\n\nIt cites {cite}`vaswani2017`.\n")

    def build():
        return subprocess.run(
            [sys.executable, "tools/book.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONUTF8": "1"},
        )

    return tmp_path, build


def test_broken_reference_fails_every_build_and_leaves_no_site(little_book):
    folder, build = little_book
    index = folder / "book" / "_build" / "html" / "index.html"
    index.parent.mkdir(parents=True)
    index.write_text("the site of yesterday")
    with (folder / "book" / "references.md").open("a") as page:
        page.write("\nSee {eq}`no-such-equation`.\n")
    for _ in range(2):  # Sphinx is silent on pages it has read before
        done = build()
        assert done.returncode == 1
        assert "book/references.md:" in done.stderr
        assert "no-such-equation" in done.stderr
        assert "make book" in done.stderr
        assert not index.exists()


def test_missing_notebook_is_refused_by_name(little_book):
    folder, build = little_book
    (folder / "notebooks").mkdir()
    (folder / "notebooks" / "99_end.md").write_text("# The end\n")
    done = build()
    assert done.returncode == 1
    assert "notebooks/99_end.md is not in book/_toc.yml" in done.stderr
    with (folder / "book" / "_toc.yml").open("a") as toc:
        toc.write("  - file: notebooks/99_end\n")
    done = build()
    assert done.returncode == 1
    assert "99_end.md: it has never been executed" in done.stderr
    assert "run `make notebooks`" in done.stderr
