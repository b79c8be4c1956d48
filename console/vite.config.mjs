// `npx vite console` serves the sources with reloading, against a service at STATEFOLD_URL; the build is scripts/build-console.mjs.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const service = process.env.STATEFOLD_URL ?? 'http://127.0.0.1:8080';

export default defineConfig({
  base: '/console/',
  // Settings of a folder above are none of ours.
  envDir: false,
  resolve: { alias: { '@statefold/client': here('../packages/client/src/index.ts') } },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: here('../dist/console'),
    emptyOutDir: true,
    target: 'es2022',
    // Of the colours that are written light-dark().
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    // A data: URL would need a hole in the policy of the pages.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    proxy: { '^/(?!console|@|node_modules|src)': { target: service } },
    fs: { allow: [here('..')] },
  },
});
