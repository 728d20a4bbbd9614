// The service worker of the reader: keeps each page that was loaded, so that it can be read again
// without a connection. With a connection every page comes from the server.
const name = 'reader-1';
/** Pages and their files that are kept; the oldest go. */
const keptMax = 400;
const files = /^\/(?:reader\/assets|_kit|_live)\/[^?]+$/;

self.addEventListener('install', () => void self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (origin !== self.location.origin) return;
  // On a shared machine nobody reads what another has loaded.
  if (request.method === 'POST' && /^\/reader\/log(?:in|out)$/.test(pathname)) {
    event.waitUntil(caches.delete(name));
  }
  if (request.method !== 'GET') return;
  const isPage = request.headers.get('accept')?.includes('text/html') ?? false;
  if (isPage || files.test(pathname)) event.respondWith(answer(request));
});

async function answer(request) {
  const cache = await caches.open(name);
  try {
    const fresh = await fetch(request);
    if (fresh.ok && !fresh.redirected) {
      await cache.put(request.url, fresh.clone());
      const kept = await cache.keys();
      for (const old of kept.slice(0, Math.max(0, kept.length - keptMax))) await cache.delete(old);
    }
    return fresh;
  } catch {
    const known = await cache.match(request.url, { ignoreVary: true });
    return (
      known ??
      new Response('There is no connection, and this page was not loaded before.', {
        status: 503,
        headers: { 'content-type': 'text/plain; charset=utf-8' },
      })
    );
  }
}
