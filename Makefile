# `make demo` and `make test` do everything on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread a process: the tests run in parallel processes, and small networks gain nothing from more.
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: version demo test browser check format fuzz audit docs site clean

INSTALL = test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

version:
	@$(PYTHON) -c 'import sys; sys.exit("Palimpsest needs Python 3.11 or newer; try: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'

# What it takes to use it, and what it takes to work on it.
$(VENV)/.package: pyproject.toml constraints.txt | version
	$(INSTALL) '.[page]'
	touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | version
	$(INSTALL) '.[dev]'
	touch $(VENV)/.package $@

demo: $(VENV)/.package
	$(BIN)/palimpsest demo

test: $(VENV)/.installed browser
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal

# The page is tested in a real browser.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq; apt-get install -y -qq chromium >/dev/null; \
	  else echo "The tests of the page need Chromium: install the package chromium (Debian: apt-get install chromium)." >&2; exit 1; fi; }

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The parsers of studies and records, and the names of files, with many examples that differ each time.
EXAMPLES ?= 5000
fuzz: $(VENV)/.installed
	$(TEST_ENV) PALIMPSEST_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -m hypothesis --timeout 0 --durations 0 \
	  tests/store tests/specs tests/test_security.py

# Known vulnerabilities of what is installed. Asks a public database, so it needs the network.
audit: $(VENV)/.installed $(VENV)/audit/bin/pip-audit
	$(VENV)/audit/bin/python tools/audit.py "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

$(VENV)/audit/bin/pip-audit:
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit

docs: $(VENV)/.installed
	$(BIN)/python docs/generate.py

# The documentation as a site, in site/; open site/index.html. A dead link, or a page that is not in mkdocs.yml, fails.
site: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache
