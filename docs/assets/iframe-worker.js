// Search runs in a worker, and browsers start no workers on a page that was opened from the disk.
// There, its script runs in a hidden frame instead. The file's name tells Zensical that the site
// brings its own; otherwise each page loads one from a server.
if (location.protocol === "file:") {
  window.Worker = class {
    onmessage = null
    onerror = null
    #frame = document.createElement("iframe")
    #scope

    constructor(url) {
      this.#frame.hidden = true
      this.#scope = new Promise((resolve) => {
        this.#frame.addEventListener("load", () => resolve(this.#start(url)), { once: true })
      })
      document.body.append(this.#frame)
    }

    postMessage(message) {
      const data = structuredClone(message) // now: the page may change it before it arrives
      this.#scope.then((scope) => {
        scope.dispatchEvent(new scope.MessageEvent("message", { data }))
      })
    }

    terminate() {
      this.#frame.remove()
    }

    #start(url) {
      const scope = this.#frame.contentWindow
      scope.postMessage = (message) => {
        const data = structuredClone(message)
        setTimeout(() => this.onmessage?.(new MessageEvent("message", { data })))
      }
      const script = scope.document.createElement("script")
      script.src = new URL(url, location.href)
      scope.document.body.append(script)
      return new Promise((resolve) => {
        script.addEventListener("load", () => resolve(scope))
        script.addEventListener("error", (event) => this.onerror?.(event))
      })
    }
  }
}
