import type { Picture } from './pictures.ts';

/** The picture of each page in `docs/parts`, by the name of the page. */
export const pictures: Readonly<Record<string, Picture>> = {
  lane: {
    label: 'Callers pass a door and a queue to permits; work has a deadline; some are refused',
    rows: [
      [
        { label: 'callers' },
        { label: 'door', note: 'can it end in time?', refusal: '503 LANE_LATE' },
        { label: 'queue', cells: [3, 5], refusal: '503 LANE_FULL' },
        { label: 'permits', note: 'limit', tone: 'main' },
        { label: 'your task', note: 'with a signal', refusal: '504 DEADLINE' },
        { label: 'answer' },
      ],
    ],
  },
  gate: {
    label: 'Callers wait in order; a permit that is given back goes to the oldest waiter',
    rows: [
      [
        { label: 'enter' },
        { label: 'queue', cells: [2, 5], refusal: '503 GATE_FULL' },
        { label: 'gate', cells: [3, 3], tone: 'main' },
        { label: 'your work' },
        { label: 'leave', note: 'the oldest waiter goes in' },
      ],
    ],
  },
  pool: {
    label:
      'Tasks wait for a free thread; each thread has its own resources and is replaced when old',
    names: ['the event loop', 'threads'],
    rows: [
      [
        { label: "run('score', text)", arrow: 'typed' },
        { label: 'queue', cells: [2, 6], refusal: '503 POOL_FULL' },
        { label: 'dispatcher', note: 'to the thread with room', tone: 'main' },
        { label: 'result' },
      ],
      [
        { label: 'worker 1', note: 'busy: score(text)', ends: true },
        { label: 'worker 2', note: 'free', ends: true },
        { label: 'worker 3', note: 'old: finishes, goes', arrow: 'replaced by' },
        { label: 'worker 4', note: 'warm already' },
      ],
    ],
  },
  snapshot: {
    label: 'A task that began with version 7 keeps it to its end; a new one sees version 8',
    names: ['a task that began earlier', 'publish', 'a task that begins now'],
    rows: [
      [
        { label: 'acquire' },
        { label: 'version 7', note: 'to its end' },
        { label: 'let go', note: 'version 7 is released' },
      ],
      [{ label: 'publish(model)' }, { label: 'version 8', tone: 'main', note: 'from now on' }],
      [{ label: 'acquire' }, { label: 'version 8', note: 'to its end' }, { label: 'let go' }],
    ],
  },
  bucket: {
    label: 'Tokens drip into a bucket at a rate; each call takes one; a 429 slows the drip',
    names: ['each call', 'after a 429'],
    rows: [
      [
        { label: 'tokens drip in', note: 'ratePerSecond' },
        { label: 'bucket', cells: [3, 6], tone: 'main', arrow: 'take()' },
        { label: 'callers in order', note: 'queueMax', refusal: '429 BUCKET_FULL' },
        { label: 'the other side' },
      ],
      [
        { label: '429', note: 'Retry-After: 3' },
        { label: 'slow()', note: 'all are silent for 3 s' },
        { label: 'half the rate', note: 'and up again' },
      ],
    ],
  },
  breaker: {
    label: 'Closed until failures by the rule; open for a cooldown; then one caller probes',
    names: ['it breaks', 'it comes back', 'or it does not'],
    rows: [
      [
        { label: 'closed', note: 'all calls pass', arrow: 'failures by the rule' },
        { label: 'open', note: 'calls are refused', tone: 'main', refusal: '503 BREAKER_OPEN' },
      ],
      [
        { label: 'open', arrow: 'cooldown over' },
        { label: 'half-open', note: 'one caller probes', tone: 'main', arrow: 'it succeeds' },
        { label: 'closed', note: 'for all at once' },
      ],
      [
        { label: 'half-open', arrow: 'it fails' },
        { label: 'open', note: 'for twice as long' },
      ],
    ],
  },
  retry: {
    label:
      'Attempts with growing random waits, until success, the last attempt, the budget or the time',
    rows: [
      [
        { label: 'attempt 1', note: '503', arrow: 'wait' },
        { label: 'attempt 2', note: '503, Retry-After: 1', arrow: 'wait 1 s' },
        { label: 'attempt 3', note: '200', tone: 'main' },
        { label: 'answer' },
      ],
      [
        { label: 'attempt 1', note: 'budget is used up', refusal: 'the last error, at once' },
        { label: 'attempt 2', note: 'would end too late', refusal: 'the last error, at once' },
      ].map((step) => ({ ...step, ends: true })),
    ],
  },
  outbound: {
    label:
      'One permit of a lane for all attempts; each asks the breaker, takes a token, has a time',
    names: ['once for a call', 'for each attempt'],
    rows: [
      [
        { label: 'exchange.run(task)' },
        { label: 'lane', note: 'one permit' },
        { label: 'retry', note: 'deadlineMs in all', tone: 'main' },
        { label: 'answer', note: 'or fallback' },
      ],
      [
        { label: 'breaker', note: 'is it open?', refusal: '503 BREAKER_OPEN' },
        { label: 'bucket', note: 'a token', refusal: '429: slow()' },
        { label: 'task(signal)', note: 'attemptMs', tone: 'main' },
        { label: 'status', note: '429, 5xx: again' },
      ],
    ],
  },
  backlog: {
    label: 'Items of one key become one; each is consumed in the background and tried again',
    rows: [
      [
        { label: 'add(item)', note: 'returns at once' },
        { label: 'same key waits?', note: 'merge: they become one' },
        { label: 'backlog', cells: [3, 6], tone: 'main', refusal: 'full: onDrop' },
        { label: 'consume(item)', refusal: 'failed: again, later' },
        { label: 'done' },
      ],
    ],
  },
  batch: {
    label: 'One call at a time; all who come meanwhile share the next one',
    names: ['while a write is under way', 'then'],
    rows: [
      [
        { label: 'add(1)' },
        { label: 'write of [1]', tone: 'main', ends: true },
        { label: 'add(2)', ends: true },
        { label: 'add(3)', ends: true },
        { label: 'add(4)', note: 'all wait', ends: true },
      ],
      [
        { label: 'take()', note: 'all that came' },
        { label: 'write of [2, 3, 4]', tone: 'main', note: 'one fsync, one trip' },
        { label: 'each is answered', note: 'alone' },
      ],
    ],
  },
  'small-tools': {
    label: 'Five small tools: map, SingleFlight, Keyed, BoundedMap, every',
    names: ['map', 'SingleFlight', 'Keyed', 'every'],
    rows: [
      [
        { label: '1,000 items' },
        { label: '8 at once', tone: 'main' },
        { label: 'results in order' },
      ],
      [
        { label: '50 ask for one key' },
        { label: 'one call', tone: 'main' },
        { label: '50 answers' },
      ],
      [
        { label: 'a key' },
        { label: 'its own lane', tone: 'main' },
        { label: 'idle ones are closed' },
      ],
      [
        { label: 'run' },
        { label: 'pause', note: 'periodMs', tone: 'main' },
        { label: 'run', note: 'never two at once' },
      ],
    ],
  },
  store: {
    label: 'Processes read records with versions; a commit is made if no version changed meanwhile',
    rows: [
      [
        { label: 'read([a, b])', note: 'versions 4 and 9' },
        { label: 'decide' },
        {
          label: 'commit',
          note: 'if a is 4 and b is 9',
          tone: 'main',
          refusal: 'undefined: read again',
        },
        { label: 'memory, SQLite,', note: 'Postgres or Redis' },
      ],
    ],
  },
  lease: {
    label: 'One holder with a fencing number; a late write of an earlier holder is refused',
    names: ['process A', 'process B'],
    rows: [
      [
        { label: 'holds fence 6', note: 'renewed', arrow: 'frozen' },
        { label: 'signal aborts', note: 'at the end of ttlMs' },
        { label: 'late write', note: 'under fence 6', refusal: 'refused by the store' },
      ],
      [
        { label: 'waits' },
        { label: 'holds fence 7', tone: 'main', note: 'once A is over' },
        { label: 'writes', note: 'under fence 7' },
      ],
    ],
  },
  shared: {
    label: 'Each process reserves a few tokens or permits ahead from one store and passes them on',
    names: ['process A', 'process B'],
    rows: [
      [
        { label: 'callers' },
        { label: 'reserved here', cells: [4, 4], tone: 'main', arrow: 'one visit for many' },
        { label: 'the store', note: 'rate and limit of all' },
      ],
      [
        { label: 'callers' },
        { label: 'reserved here', cells: [2, 4], tone: 'main', arrow: 'one visit for many' },
        { label: 'the store', note: 'the same record' },
      ],
    ],
  },
  document: {
    label: 'Transactions that wait are written together into a new file that replaces the old one',
    rows: [
      [
        { label: 'transaction(draft)', note: 'any process' },
        { label: 'file lock', note: 'one process at a time' },
        { label: 'new file, fsync', tone: 'main', note: 'all that wait, at once' },
        { label: 'settings.json', note: 'replaced, never half' },
      ],
    ],
  },
  sqlite: {
    label: 'One thread writes with one fsync for all that came; other threads read',
    names: ['writes', 'reads'],
    rows: [
      [
        { label: '64 callers' },
        { label: 'queue', cells: [6, 8], refusal: '503 DATABASE_BUSY' },
        { label: 'writer thread', note: 'one fsync for all', tone: 'main' },
        { label: 'file' },
      ],
      [
        { label: 'callers' },
        { label: 'reader threads', note: '2 as a rule' },
        { label: 'file', note: 'never waits for a write' },
      ],
    ],
  },
  database: {
    label:
      'One typed handle, on a SQLite file or a Postgres server, with migrations and transactions',
    rows: [
      [
        { label: 'kysely', note: 'typed queries' },
        {
          label: 'Database',
          note: 'bounded, with deadlines',
          tone: 'main',
          refusal: '503 DATABASE_BUSY',
        },
        { label: 'sqlite:…', note: 'or postgres://…' },
      ],
    ],
  },
  harvest: {
    label: 'Pages are fetched in parallel at a rate and delivered in order with a checkpoint',
    rows: [
      [
        { label: 'range', note: '1 to 5,000' },
        {
          label: 'pages in parallel',
          note: "at the bucket's rate",
          refusal: 'failed: comes again',
        },
        { label: 'in order', note: 'gaps are noted', tone: 'main' },
        { label: 'rows + checkpoint', note: 'in one transaction' },
      ],
    ],
  },
  service: {
    label: 'Parts start in order, run until SIGTERM, and close in reverse',
    names: ['start', 'SIGTERM'],
    rows: [
      [
        { label: 'database' },
        { label: 'pool' },
        { label: 'server', note: 'ready is true', tone: 'main' },
      ],
      [
        { label: 'server', note: 'finishes requests', tone: 'main' },
        { label: 'pool' },
        { label: 'database' },
        { label: 'exit 0', note: 'within closeMsMax' },
      ],
    ],
  },
  clock: {
    label: 'Parts take their time from a clock; tests give them a virtual one and move it on',
    names: ['in production', 'in a test'],
    rows: [
      [
        { label: 'lane, bucket, lease…' },
        { label: 'system clock' },
        { label: 'a day takes a day' },
      ],
      [
        { label: 'the same code' },
        { label: 'VirtualClock', tone: 'main', arrow: 'advance(a day)' },
        { label: 'a few milliseconds', note: 'in the right order' },
      ],
    ],
  },
  panel: {
    label: 'Parts are watched by a panel, which gives stats, metrics and the console their numbers',
    rows: [
      [
        { label: 'lane, pool,', note: 'bucket, breaker…' },
        { label: 'panel.watch', tone: 'main', note: 'reads stats when asked' },
        { label: '/-/metrics', note: 'Prometheus' },
        { label: 'console', note: 'and advisor' },
      ],
    ],
  },
  server: {
    label: 'A request passes guards in one order: rate, lane, size, session, body, schema, handler',
    names: ['before the body is read', 'after'],
    rows: [
      [
        { label: 'request' },
        { label: 'loop', refusal: '503' },
        { label: 'rate', refusal: '429' },
        { label: 'lane', tone: 'main', refusal: '503' },
        { label: 'size', refusal: '413' },
        { label: 'session', refusal: '401' },
      ],
      [
        { label: 'body', refusal: '400' },
        { label: 'idempotency', refusal: '409' },
        { label: 'CSRF', refusal: '403' },
        { label: 'schema', refusal: '422' },
        { label: 'handler', tone: 'main', refusal: '504' },
        { label: 'answer' },
      ],
    ],
  },
  rate: {
    label: 'Requests are counted by client and route in a sliding window before they take anything',
    rows: [
      [
        { label: 'request' },
        { label: 'key', note: 'user, or address' },
        { label: 'window', cells: [7, 10], tone: 'main', refusal: '429 with Retry-After' },
        { label: 'lane' },
        { label: 'handler' },
      ],
    ],
  },
  sessions: {
    label: 'Data in a signed cookie: read by its owner, written only by the server',
    rows: [
      [
        { label: 'cookie', note: 'data + signature' },
        { label: 'signature', note: 'right and not too old?', refusal: 'an empty session' },
        { label: 'session', tone: 'main', note: 'get, set, flash' },
        { label: 'change?', note: 'a new cookie' },
      ],
      [
        { label: 'POST', note: 'with a cookie' },
        { label: 'token', note: 'in form or header', refusal: '403 CSRF_REFUSED' },
        { label: 'handler' },
      ],
    ],
  },
  idempotency: {
    label: 'The first request of a key runs; repeated ones wait for it or get its answer',
    rows: [
      [
        { label: 'key order-17', note: 'first time' },
        { label: 'claimed', note: 'in the store', tone: 'main' },
        { label: 'handler', note: 'runs once' },
        { label: 'answer is kept', note: 'a day' },
      ],
      [
        { label: 'key order-17', note: 'again' },
        { label: 'same body?', refusal: '422 IDEMPOTENCY_MISMATCH' },
        { label: 'still running?', refusal: '409, Retry-After' },
        { label: 'the same answer' },
      ],
    ],
  },
  'live-pages': {
    label: 'A change of state renders the view once; browsers get the difference',
    rows: [
      [
        { label: 'state.update' },
        { label: 'view()', note: 'once for all who see it' },
        { label: 'difference', tone: 'main', note: 'of two renders' },
        { label: '10,000 browsers', note: 'server-sent events' },
      ],
    ],
  },
  files: {
    label: 'Uploads go to a new file and replace the old one when whole; downloads know ranges',
    names: ['upload', 'download'],
    rows: [
      [
        { label: 'body', note: 'any size' },
        { label: 'new file', note: 'bytesMax', refusal: '413, nothing is left' },
        { label: 'fsync, rename', tone: 'main' },
        { label: 'file, whole' },
      ],
      [
        { label: 'range, ETag', note: '206, 304, 412' },
        { label: 'pieces', note: "at the client's pace", tone: 'main' },
        { label: 'closed', note: 'when the client leaves' },
      ],
    ],
  },
  sockets: {
    label: 'A broadcast is framed once and given to each socket of the room, slow ones are cut off',
    rows: [
      [
        { label: 'broadcast(room)' },
        { label: 'hub', note: 'framed once', tone: 'main' },
        { label: 'each socket', note: 'own bounded buffer', refusal: 'slow: dropped or closed' },
        { label: 'other instances', note: 'by a channel' },
      ],
    ],
  },
  operator: {
    label: 'The operator’s interface is on a socket of its own: stats, metrics, errors, actions',
    rows: [
      [
        { label: 'console, curl' },
        { label: 'operator.sock', note: 'only its user', tone: 'main' },
        { label: '/-/stats, metrics', note: 'errors, routes, config' },
        { label: '/-/actions', note: 'resize, pause, drain' },
      ],
      [
        { label: 'everybody' },
        { label: 'public port', refusal: '404 for all the rest' },
        { label: '/-/live, /-/ready', note: 'for probes' },
      ],
    ],
  },
};
