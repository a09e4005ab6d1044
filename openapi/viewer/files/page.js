// Shows openapi.json, and loads it again when the caller authenticates: it then has that caller's tools.
// Credentials stay in the memory of the page.
"use strict";

const address = "openapi.json"; // relative to this page
let headers = {};

const asCaller = () => ({
  statePlugins: {
    auth: {
      wrapActions: {
        authorize: (next, system) => (given) => {
          next(given);
          if (given.bearer) headers = { Authorization: "Bearer " + given.bearer.value };
          if (given.apiKey) headers = { "X-API-Key": given.apiKey.value };
          system.specActions.download(address);
        },
        logout: (next, system) => (names) => {
          next(names);
          headers = {};
          system.specActions.download(address);
        },
      },
    },
  },
});

SwaggerUIBundle({
  dom_id: "#page",
  url: address,
  plugins: [asCaller],
  validatorUrl: null, // no requests to other sites
  tryItOutEnabled: true,
  defaultModelsExpandDepth: -1,
  docExpansion: "list",
  requestInterceptor: (request) => {
    if (request.loadSpec) Object.assign(request.headers, headers);
    return request;
  },
});
