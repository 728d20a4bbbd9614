import type { FastifyInstance } from 'fastify';
import { type Html, html } from 'spillway-http';
import { card, empty, pageHead, tag } from 'spillway-http/kit';
import { fits } from '../shape.ts';
import { type FrameOptions, sendPage } from './frame.ts';

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly schema: unknown;
}

interface Operation {
  readonly summary?: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: unknown;
  readonly responses: Readonly<Record<string, unknown>>;
}

interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

const operation = {
  'summary?': '',
  'description?': '',
  'parameters?': [{ name: '', in: '' }],
} as const;
const descriptionShape = { paths: { '*': { '*': operation } } };

/** The page that shows the API of a service, from the description that it serves itself. */
export function addApi(app: FastifyInstance, options: FrameOptions): void {
  app.get('/api', async (request, reply) => {
    const { service: name } = request.query as { readonly service?: string };
    const service = options.view().services.find((each) => each.name === name);
    const found = await service?.ask('/-/openapi.json').catch(() => undefined);
    const none = empty({ title: 'No description', text: 'The service sends none.' });
    const main = html`<div class="stack api">${pageHead({ title: `API of ${name ?? ''}` })}
${fits(found, descriptionShape) ? operations(found as Description) : none}</div>`;
    return sendPage(reply, { title: `API of ${name ?? ''}`, main }, options);
  });
}

function operations({ paths }: Description): Html {
  const cards = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const id = `${method}${path}`.replaceAll(/[^\w]+/g, '-');
      const title = `${method.toUpperCase()} ${path}`;
      return card({ id, title, body: described(operation) });
    }),
  );
  return html`${cards}`;
}

function described({ summary, description, parameters = [], ...rest }: Operation): Html {
  const names = parameters.map(({ name, in: place, required, schema }) => {
    const words = `${place}, ${required ? 'required' : 'optional'}`;
    return html`<li><b>${name}</b> ${tag(words)} <code>${JSON.stringify(schema)}</code></li>`;
  });
  const shapes = { Body: rest.requestBody, Answers: rest.responses };
  const blocks = Object.entries(shapes).map(([name, shape]) => {
    if (shape === undefined) return false;
    const text = JSON.stringify(shape, null, 2);
    return html`<details><summary>${name}</summary><pre>${text}</pre></details>`;
  });
  return html`<p>${summary ?? description ?? ''}</p><ul>${names}</ul>${blocks}`;
}
