import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { context, metrics, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { AggregationTemporality, MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import express from 'express';
import { Lane, MemoryStore, outbound, Panel, Pool, SqliteStore } from 'spillway';
import { admitted, failures, Listener } from 'spillway/connect';
import { tracing } from 'spillway/internal';
import { openTelemetry } from 'spillway/opentelemetry';

/** A reader that collects when the test asks. */
class Reader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

const exporter = new InMemorySpanExporter();
const reader = new Reader({
  aggregationTemporalitySelector: () => AggregationTemporality.CUMULATIVE,
});

async function metric(name: string) {
  const { resourceMetrics } = await reader.collect();
  const all = resourceMetrics.scopeMetrics.flatMap((scope) => scope.metrics);
  return all.find(({ descriptor }) => descriptor.name === name);
}

const spans = (name: string): ReadableSpan[] =>
  exporter.getFinishedSpans().filter((span) => span.name === name);

function one(name: string): ReadableSpan {
  const found = spans(name);
  assert.equal(found.length, 1, `${name}: ${exporter.getFinishedSpans().map((span) => span.name)}`);
  return found[0] as ReadableSpan;
}

/** The span that another one stands in. */
const parentOf = (span: ReadableSpan): string | undefined => span.parentSpanContext?.spanId;

before(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(
    new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }),
  );
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
});
beforeEach(() => exporter.reset());
after(() => context.disable());

describe('OpenTelemetry', () => {
  it('is not loaded by those who do not ask for it', () => {
    const entries = ['spillway', 'spillway/connect', 'spillway/fetch', 'spillway/internal'];
    const program = `
      import { registerHooks } from 'node:module';
      registerHooks({
        resolve(name, at, next) {
          if (name.includes('opentelemetry')) throw new Error('loaded ' + name);
          return next(name, at);
        },
      });
      for (const entry of ${JSON.stringify(entries)}) await import(entry);`;
    const { NODE_OPTIONS, NODE_TEST_CONTEXT, ...env } = process.env;
    execFileSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: import.meta.dirname,
      env,
    });
  });

  it('follows one request through lane, pool, store and the call to another service', async () => {
    using _telemetry = openTelemetry();
    let seen: unknown;
    await using upstream = new Listener(
      createServer((req, res) => {
        seen = req.headers.traceparent;
        res.end('upstream');
      }),
    );
    // The other service is one that nobody traces.
    const { tracer } = tracing;
    tracing.tracer = undefined;
    await upstream.start();
    tracing.tracer = tracer;
    const lane = new Lane({ name: 'quotes', limit: 1, queueMax: 9, deadlineMs: 10_000 });
    const other = outbound();
    await using folder = await mkdtempDisposable(join(tmpdir(), 'telemetry-'));
    await using store = await SqliteStore.open({ path: join(folder.path, 'store.db') });
    await using pool = await Pool.open<typeof import('./fixtures/telemetry-worker.ts')>({
      name: 'scores',
      module: new URL('./fixtures/telemetry-worker.ts', import.meta.url),
      workers: 1,
      queueMax: 9,
      deadlineMs: 10_000,
    });
    const app = express();
    app.get(
      '/quotes/:name',
      admitted(lane, async (_req, res: express.Response, signal) => {
        const answer = await other.fetch(`${upstream.url}/path?key=secret&more#secret`, { signal });
        const length = await pool.run('measure', await answer.text(), { signal });
        await store.commit([{ name: 'last', value: length }], { signal });
        res.json(length);
      }),
    );
    app.use(failures);
    await using listener = new Listener(createServer(app));
    await listener.start();
    const held = await lane.enter();
    const traceId = '0af7651916cd43dd8448eb211c80319c';
    const headers = { traceparent: `00-${traceId}-b7ad6b7169203331-01` };
    const asked = fetch(`${listener.url}/quotes/abc`, { headers });
    while (lane.stats.waiting === 0) await new Promise((resolve) => setImmediate(resolve));
    held[Symbol.dispose]();
    assert.equal(await (await asked).json(), 8);
    while (spans('GET /quotes/:name').length === 0) {
      await new Promise((resolve) => setImmediate(resolve));
    }

    const server = one('GET /quotes/:name');
    assert.equal(server.kind, SpanKind.SERVER);
    assert.equal(parentOf(server), 'b7ad6b7169203331');
    assert.equal(server.attributes['http.response.status_code'], 200);
    assert.equal(server.attributes['http.route'], '/quotes/:name');
    assert.equal(server.attributes['url.path'], '/quotes/abc');
    const within = server.spanContext().spanId;
    assert.equal(parentOf(one('spillway.lane.wait')), within);
    assert.equal(one('spillway.lane.wait').attributes['spillway.lane.name'], 'quotes');
    const call = one('spillway.outbound.call');
    assert.equal(parentOf(call), within);
    const client = one('GET');
    assert.equal(client.kind, SpanKind.CLIENT);
    assert.equal(parentOf(client), call.spanContext().spanId);
    assert.equal(seen, `00-${traceId}-${client.spanContext().spanId}-01`);
    assert.equal(client.attributes['server.address'], '127.0.0.1');
    const redacted = `${upstream.url}/path?key=REDACTED&REDACTED`;
    assert.equal(client.attributes['url.full'], redacted);
    const task = one('spillway.pool.task');
    assert.equal(parentOf(task), within);
    assert.equal(task.attributes['spillway.pool.handler'], 'measure');
    const commit = one('spillway.store.commit');
    assert.equal(parentOf(commit), within);
    assert.equal(commit.attributes['db.system.name'], 'sqlite');
    const all = exporter.getFinishedSpans();
    assert.deepEqual(new Set(all.map((span) => span.spanContext().traceId)), new Set([traceId]));

    const served = await metric('http.server.request.duration');
    assert.equal(served?.descriptor.unit, 's');
    assert.deepEqual(served?.dataPoints[0]?.attributes, {
      'http.request.method': 'GET',
      'http.response.status_code': 200,
      'http.route': '/quotes/:name',
      'url.scheme': 'http',
    });
    assert.notEqual(await metric('http.client.request.duration'), undefined);
    assert.notEqual(await metric('db.client.operation.duration'), undefined);
  });

  it('marks what failed, and tells retries as events of the call', async () => {
    using _telemetry = openTelemetry();
    let asked = 0;
    await using upstream = new Listener(
      createServer((_req, res) => {
        asked += 1;
        res.statusCode = 503;
        res.end();
      }),
    );
    await upstream.start();
    const other = outbound({ retry: { attemptsMax: 2, backoffMs: 1 } });
    await (await other.fetch(upstream.url)).text();
    assert.equal(asked, 2);
    const clients = spans('GET').filter((span) => span.kind === SpanKind.CLIENT);
    assert.deepEqual(
      clients.map((span) => span.attributes['http.request.resend_count']),
      [undefined, 1],
    );
    assert.ok(clients.every((span) => span.status.code === SpanStatusCode.ERROR));
    assert.equal(clients[0]?.attributes['error.type'], '503');
    const call = one('spillway.outbound.call');
    assert.deepEqual(
      call.events.map((event) => event.name),
      ['spillway.retried'],
    );
    assert.equal(call.status.code, SpanStatusCode.ERROR);
  });

  it('gives the numbers of a panel, with parts that come later', async () => {
    const panel = new Panel();
    const lane = new Lane({ name: 'quotes', limit: 2, queueMax: 9, deadlineMs: 1_000 });
    panel.watch('quotes', lane);
    const telemetry = openTelemetry({ panel });
    await lane.run(async () => {});
    const finished = await metric('spillway.lane.finished');
    assert.deepEqual(
      finished?.dataPoints.map(({ value, attributes }) => [value, attributes]),
      [[1, { 'spillway.lane': 'quotes' }]],
    );
    assert.equal((await metric('spillway.lane.wait'))?.descriptor.unit, 's');
    panel.watch('store', new MemoryStore());
    await metric('spillway.store.records');
    const records = await metric('spillway.store.records');
    assert.equal(records?.dataPoints[0]?.value, 0);
    telemetry[Symbol.dispose]();
    await lane.run(async () => {});
    const last = await metric('spillway.lane.finished');
    assert.equal(last?.dataPoints[0]?.value, 1, 'nobody asks the lane any more');
  });
});
