# docker build --build-arg VERSION=$(git describe --tags --always) --build-arg COMMIT=$(git rev-parse HEAD) \
#   --build-arg DATE=$(git log -1 --format=%cI) -t capgate .
ARG GOLANG_IMAGE=golang:1.26
FROM ${GOLANG_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown COMMIT=unknown DATE=unknown
RUN INFO=github.com/capgate/capgate/internal/lib/buildinfo && CGO_ENABLED=0 go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X $INFO.version=$VERSION -X $INFO.commit=$COMMIT -X $INFO.date=$DATE" \
    -o /out/capgate ./cmd/capgate

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/capgate /capgate
USER 65532:65532
# 8080 is public, for all protocols; 8081 is the admin API.
EXPOSE 8080 8081
ENTRYPOINT ["/capgate"]
CMD ["serve"]
