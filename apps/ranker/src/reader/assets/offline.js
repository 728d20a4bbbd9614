// The service worker of the reader: keeps each page that was loaded, so that it can be read again
// without a connection. With a connection every page comes from the server.
const name = 'reader-1';
/** Pages and their files that are kept; the oldest go. */
const keptMax = 400;
const files = /^\/(?:reader\/assets|_kit|_live)\/[^?]+$/;
/** Pictures, which are larger, have a cache of their own. */
const imagesName = 'reader-images-1';
const imagesMax = 200;
const images = /^\/reader\/images\//;

self.addEventListener('install', () => void self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (origin !== self.location.origin) return;
  // On a shared machine nobody reads what another has loaded.
  if (request.method === 'POST' && /^\/reader\/log(?:in|out)$/.test(pathname)) {
    event.waitUntil(Promise.all([caches.delete(name), caches.delete(imagesName)]));
  }
  if (request.method !== 'GET') return;
  const isPage = request.headers.get('accept')?.includes('text/html') ?? false;
  if (images.test(pathname)) event.respondWith(answer(request, imagesName, imagesMax));
  else if (isPage || files.test(pathname)) event.respondWith(answer(request, name, keptMax));
});

async function answer(request, cacheName, countMax) {
  const cache = await caches.open(cacheName);
  let fresh;
  try {
    fresh = await fetch(request);
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
  // Where there is no room to keep a page, it is shown all the same.
  if (fresh.ok && !fresh.redirected)
    await keep(cache, request.url, fresh, countMax).catch(() => {});
  return fresh;
}

async function keep(cache, url, fresh, countMax) {
  await cache.put(url, fresh.clone());
  const kept = await cache.keys();
  for (const old of kept.slice(0, Math.max(0, kept.length - countMax))) await cache.delete(old);
}
