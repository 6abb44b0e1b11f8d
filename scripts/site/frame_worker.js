// The search of the site runs in a Worker, which browsers refuse to pages opened from files. There it
// runs in a hidden frame instead.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inner = this.frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source !== this.inner) return;
        const message = new MessageEvent("message", { data: event.data });
        this.onmessage?.(message);
        this.dispatchEvent(message);
      });
      const source = new URL(address, document.baseURI);
      this.inner.document.open();
      this.inner.document.write(`<!doctype html><body><script>
        window.postMessage = (data) => parent.postMessage(data, "*");
        window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() =>
          new Promise((loaded) => {
            const script = document.createElement("script");
            script.src = url;
            script.onload = loaded;
            document.body.append(script);
          })), Promise.resolve());
        </` + `script><script src="${source}"></` + `script>`);
      this.inner.document.close();
      this.waiting = [];
      this.frame.addEventListener("load", () => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.deliver(data));
      });
    }
    postMessage(data) {
      this.waiting ? this.waiting.push(data) : this.deliver(data);
    }
    deliver(data) {
      this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
