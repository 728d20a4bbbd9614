// Uploads and downloads of any size in constant memory: a file is stored whole, or not at all.
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, download, fileDownload, receive, uploads } from 'spillway-http';

await using folder = await mkdtempDisposable(join(tmpdir(), 'spillway-example-'));
const root = folder.path;
await using server = await createServer({ bodyTypes: ['application/octet-stream'] });
interface Named {
  readonly Params: { readonly name: string };
}
// From here on, handlers read bodies as streams.
await server.app.register(uploads);
server.app.put<Named>('/files/:name(^\\w[\\w.-]*$)', async (request) => {
  const path = join(root, request.params.name);
  const { bytes, sha256 } = await receive(request, path, { bytesMax: 10_000_000 });
  return { bytes, sha256: sha256.slice(0, 8) };
});
server.app.get<Named>('/files/:name', async (request, reply) => {
  return download(reply, await fileDownload(root, request.params.name));
});
await server.start();

const url = `${server.url}/files/log.bin`;
const headers = { 'content-type': 'application/octet-stream' };
const sent = await fetch(url, { method: 'PUT', headers, body: Buffer.alloc(1_000_000, 'a') });
console.log('sent:', sent.status, await sent.json());
const part = await fetch(url, { headers: { range: 'bytes=0-9' } });
console.log('a range:', part.status, await part.text());
const etag = part.headers.get('etag') ?? '';
const again = await fetch(url, { headers: { 'if-none-match': etag } });
console.log('unchanged:', again.status);
const outside = await fetch(`${server.url}/files/..%2Fsecret`);
console.log('outside of the folder:', outside.status);
