package ratelimit

// OfTenant is how many values of a tenant have scopes of their own.
const OfTenant = ofTenant
