// Preloaded into the process of each test file. To know whose fault an error is that nobody caught, node:test keeps a note of each
// promise until that is collected: a quarter of what a test takes that works with many. Here each notes whose it is itself, and
// node:test is told when there is such an error. Where its hook is not as it is known here, it stays in place.
import { createHook, executionAsyncId, executionAsyncResource } from 'node:async_hooks';
import { isMainThread } from 'node:worker_threads';

/** On each resource: the test in which it came to be. */
const TEST = Symbol('test');

const prototype = Object.getPrototypeOf(createHook({}));
const { enable } = prototype;

/** The callbacks of a hook, by name. */
const partsOf = (hook) =>
  Object.fromEntries(Object.getOwnPropertySymbols(hook).map((symbol) => [symbol.description, hook[symbol]]));

/** node:test has this one alone: it is told of beginnings and ends, and of nothing between. */
const isOfTests = ({ init, destroy, ...others }) =>
  typeof init === 'function' &&
  typeof destroy === 'function' &&
  Object.values(others).every((one) => one === undefined);

function trackLightly(note) {
  const hook = createHook({
    init(id, type, trigger, resource) {
      const test = type === 'Test' ? resource : executionAsyncResource()[TEST];
      if (test !== undefined) resource[TEST] = test;
    },
  });
  enable.call(hook);
  // Before node:test is asked, which looks for the test of what runs.
  const tell = () => {
    const test = executionAsyncResource()[TEST];
    if (test !== undefined) note(executionAsyncId(), 'Test', 0, test);
  };
  for (const event of ['uncaughtException', 'unhandledRejection']) process.prependListener(event, tell);
}

if (isMainThread)
  prototype.enable = function enableUnlessOfTests() {
    const parts = partsOf(this);
    if (!isOfTests(parts)) return enable.call(this);
    prototype.enable = enable;
    trackLightly(parts.init);
    return this;
  };
