// Prints the port of each server of this process, so that servers may listen on port 0.
import net from "node:net";

const { listen } = net.Server.prototype;
net.Server.prototype.listen = function (...args) {
  this.once("listening", () => console.error(`LISTENS ON ${this.address().port}.`));
  return listen.apply(this, args);
};
