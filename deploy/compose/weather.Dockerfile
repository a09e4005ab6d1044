# The demonstration capability: examples/weather.
ARG GOLANG_IMAGE=golang:1.26
FROM ${GOLANG_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" \
    -o /out/weather ./examples/weather/cmd/weather

FROM scratch
COPY --from=build /out/weather /weather
USER 65532:65532
EXPOSE 50051
ENTRYPOINT ["/weather"]
