# The front door. Each target is a line or two over a CMake preset (CMakePresets.json); what a tree
# is, is explained in cmake/README.md.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
TORTURE_RUNS ?= 10
TORTURE_SECONDS ?= 30
TORTURE_FAULTS ?= 100
BENCH ?=

.DEFAULT_GOAL := help
.PHONY: help bootstrap run build test gcc asan tsan fuzz torture bench coverage format tidy
.PHONY: install clean

# $(call tree,NAME): configure and build one tree. Configuring again takes half a second and picks
# up new rooms; only its errors are shown. One job a core: clang takes up to a gigabyte for a test.
configure = cmake --preset $(1) >/dev/null
tree = $(call configure,$(1)) && cmake --build --preset $(1) -j "$$(nproc)"
# Only what the dev tree's ctest runs out of a sanitizer tree.
siblings = $(call configure,$(1)) && \
	cmake --build --preset $(1) -j "$$(nproc)" --target tenure_sibling_programs

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | \
	    while IFS='|' read -r name text; do printf 'make %-10s %s\n' "$$name" "$$text"; done

bootstrap: ## Install what is missing (Debian 12); does nothing when all is there
	@tools/bootstrap.sh

run: build ## Build and show the demonstration
	build/bin/tenure demo

build: bootstrap ## Build the dev tree; the program is build/bin/tenure
	@$(call tree,dev)

test: build ## Run every test and check, with the sanitizers and a few seconds of fuzzing
	@$(call siblings,tsan)
	@$(call siblings,asan)
	@ctest --preset dev

gcc: bootstrap ## Build with g++ 12 and run the tests
	@$(call tree,gcc)
	@ctest --preset gcc

asan: bootstrap ## Run all tests under the address and undefined sanitizers
	@$(call tree,asan)
	@ctest --preset asan

tsan: bootstrap ## Run the concurrent tests under the thread sanitizer
	@$(call tree,tsan)
	@ctest --preset tsan

fuzz: bootstrap ## Run each fuzzer for FUZZ_SECONDS (60)
	@$(call siblings,asan)
	@tools/fuzz.sh --all "$(FUZZ_SECONDS)"

torture: build ## Kill processes and servers at random, and judge; TORTURE_RUNS (10) of 30 s each
	@build/dev/tests/stress/stress --runs "$(TORTURE_RUNS)" --seconds "$(TORTURE_SECONDS)"
	@build/dev/tests/faults_network_test --gtest_brief=1
	@TENURE_FAULTS_RUNS="$(TORTURE_RUNS)" TENURE_FAULTS_SECONDS="$(TORTURE_SECONDS)" \
	    build/dev/tests/faults_campaign_test --gtest_brief=1
	@TENURE_FAULTS_STRIKES="$$((2 * $(TORTURE_RUNS)))" \
	    build/dev/tests/faults_lock_set_test --gtest_brief=1
	@build/dev/tests/cluster_faults_test --gtest_brief=1
	@TENURE_FAULTS="$(TORTURE_FAULTS)" build/dev/tests/cluster_campaign_test --gtest_brief=1

bench: bootstrap ## Measure; BENCH=name asks one question only
	@$(call tree,release)
	@tools/bench.sh "$(BENCH)"

coverage: bootstrap ## Test coverage by file; pages in build/coverage/html
	@$(call tree,coverage)
	@tools/coverage.sh

format: bootstrap ## Format all C++ files in place
	@tools/check_format.sh --fix

tidy: bootstrap ## Run clang-tidy with its static analyser (make test has it without)
	@$(call configure,dev)
	@tools/tidy.sh --deep

install: bootstrap ## Install library and program under PREFIX (/usr/local)
	@$(call tree,release)
	@cmake --install build/release --prefix "$(PREFIX)"

clean: ## Remove everything built
	rm -rf build
