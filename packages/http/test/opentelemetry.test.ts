import assert from 'node:assert/strict';
import { it } from 'node:test';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  InMemorySpanExporter,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { openTelemetry } from 'spillway/opentelemetry';
import { createServer } from 'spillway-http';

it('a request is one span of OpenTelemetry, with its route, which handlers are in', async () => {
  const exporter = new InMemorySpanExporter();
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const spanProcessors = [new SimpleSpanProcessor({ exporter })];
  trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors }));
  using _telemetry = openTelemetry();
  await using server = await createServer({ log: false });
  server.app.get('/orders/:id', async () => {
    await undefined;
    return trace.getActiveSpan()?.spanContext().spanId;
  });
  await server.start();
  const active = await (await fetch(`${server.url}/orders/7`)).text();
  while (exporter.getFinishedSpans().length === 0) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  const [span] = exporter.getFinishedSpans();
  assert.equal(span?.name, 'GET /orders/:id');
  assert.equal(span.spanContext().spanId, active);
  assert.equal(span.attributes['http.response.status_code'], 200);
});
