// The program docs/images draws the pictures of the README and of the site, each for light and for dark pages:
//
//   - overview: the parts of a gateway, from overview.svg.
//   - approval: a recording of a call that waits and of a person who approves it. The commands run against
//     `capgate demo`, and the recording has their output. Lines end at the edge of the window.
//
// `make images` runs it. The pictures are committed: a recording has the time of day in it, so that no two are alike.
package main
