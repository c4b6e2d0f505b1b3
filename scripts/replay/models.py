#!/usr/bin/env python3
"""models.py - replay sets for models of a machine's noise, with and without a certificate, and their table.
Usage: models.py make OUT [--seed 27] [--cases 200] [--model NAME...]    writes OUT/plain, OUT/certified and OUT/noisier (numpy)
       models.py tails OUT [--seed 28] [--cases 200]   writes OUT/median, OUT/mean, OUT/p95, OUT/p99 and OUT/share:
                                                   the same sessions, by a statistic or by the share within 1.5 × the median
       models.py score OUT/SET VERDICTS.jsonl...       one row a model: % of cases, launches, coverage
Layout: as gen.py's, with calibration.csv in a case of a calibrated machine (session,block,base_us,head_us: A/A sessions).
`noisier`: a machine that varies twice as much as when it was calibrated."""
import argparse, hashlib, json, os, sys
import numpy as np
from gen import Rng, seed_of, within, FP, MU
NB=20; R=60; LOOKS=[3,4,5,6,7,8,10,12,16,20]
REQUESTS=dict(sr=.006,rho=.3)
# name: deviation of a launch of base and head, and what the machine does beside
MODELS='quiet typical noisy other heavy uneven ar1 clock cycle hog bimodal order modes headmode'.split()
MEAN=dict(modes=.4*np.log(1.06),headmode=.5*np.log(1.1)) # of head's slow launches, whatever the size
SIZES=[('0',0.),('1',.01),('2',.02),('3',.03)]
def ar1(g,n,phi,sd):
    x=np.empty(n); z=g.n(n); x[0]=sd*z[0]; k=sd*np.sqrt(1-phi*phi)
    for t in range(1,n): x[t]=phi*x[t-1]+k*z[t]
    return x
def student(g,n,df): return g.n(n)/np.sqrt((g.n(n,df)**2).sum(1)/df)
def machine(name,g,first,delta):
    """ln of each launch's factor, in order of execution, and which are head's; balanced pairs of blocks."""
    n=2*NB; t=np.arange(n); head=np.empty(n,bool); head[0::2]=first; head[1::2]=~first
    sd=np.full(n,.005); d=np.zeros(n); e=g.n(n)
    if name in ('quiet','typical','noisy'):
        s,soak,walk=dict(quiet=(.0045,.003,.0005),typical=(.0093,.008,.001),noisy=(.02,.015,.002))[name]
        sd[:]=s; d=np.cumsum(g.n(n)*walk)+soak*(1-np.exp(-t/3.))*g.uni(.3,1.)
    elif name=='other': sd[:]=.0075; e=student(g,n,4)*.8; d=np.where(g.u(n)<1/6.,np.log(1.02),0)
    elif name=='heavy': e=student(g,n,2)*.6
    elif name=='uneven': sd=np.where(head,.012,.004)
    elif name=='ar1': d=ar1(g,n,.85,.012)
    elif name=='clock': d=ar1(g,n,.8,.012)
    elif name=='cycle': d=.02*np.sin(2*np.pi*(t/g.uni(8,20)+g.u()))+.04*t/n
    elif name=='hog':
        on=np.empty(n,bool); on[0]=g.u()<.4; flip=g.u(n)<1/3.
        for k in range(1,n): on[k]=on[k-1]^flip[k]
        d=.08*on*g.uni(.3,1.,n)
    elif name=='bimodal': sd[:]=.003; d=np.where(g.u(n)<.5,np.log(1.04),0)
    elif name=='order': d=.02*(t%2)
    elif name=='modes':           # a slow mode in 10 % of the launches, in 50 % of head's where it is worse
        sd[:]=.003; d=np.where(g.u(n)<np.where(head&(delta>0),.5,.1),np.log(1.06),0); delta=0.
    elif name=='headmode':        # a slow mode that the change brings: half of head's launches where it is worse
        d=np.where(head&(delta>0)&(g.u(n)<.5),np.log(1.1),0); delta=0.
    return d+sd*e+np.where(head,np.log1p(delta),0), head
def pairs(g):
    f=g.u(NB//2)<.5; first=np.empty(NB,bool); first[0::2]=f; first[1::2]=~f
    return first
def blocks(y,head): 
    y=y.reshape(NB,2); h=head.reshape(NB,2)
    return (y*~h).sum(1), (y*h).sum(1)
def calibration(name,seed,number):
    rows=['session,block,base_us,head_us\n']
    for s in range(10):
        g=Rng(seed_of(seed,'aa',name,number,s)); y,head=machine(name,g,pairs(g),0.)
        y=y+g.n(2*NB)*REQUESTS['sr']*.25       # what a launch's median of 40 requests adds
        base,hd=blocks(y,head)
        rows+=[f'{s},{b},{MU*np.exp(base[b]):.3f},{MU*np.exp(hd[b]):.3f}\n' for b in range(8)]
    return ''.join(rows)
def make(out,seed,cases,models):
    for kind in ('plain','certified','noisier'):
        ids=[]; root=f'{out}/{kind}'; os.makedirs(root+'/cases',exist_ok=True); truth=open(root+'/truth.jsonl','w')
        for name in models:
            certificates=[calibration(name,seed,i) for i in range(10)]
            for size,delta in SIZES:
                for i in range(cases):
                    g=Rng(seed_of(seed,name,size,i)); first=pairs(g); y,head=machine(name,g,first,delta)
                    if kind=='noisier': true=np.where(head,np.log1p(delta),0); y=(y-true)*2+true
                    x=np.rint(within(g,2*NB,REQUESTS,r=R,warm=.1,tau=3.)*np.exp(y)[:,None]*MU)
                    cid=hashlib.sha256(f'{seed}{name}{size}{i}'.encode()).hexdigest()[:12]; d=f'{root}/cases/{cid}'; os.makedirs(d,exist_ok=True); ids.append(cid)
                    rows=[f"{l},{l//2},{l%2},{'pr' if head[l] else 'main'},{60+95*l},{FP},0,0\n" for l in range(2*NB)]
                    open(d+'/launches.csv','w').write('launch,block,pos,arm,t_start_s,fingerprint,throttle_bits,exit\n'+''.join(rows))
                    open(d+'/samples.jsonl','w').write(''.join(json.dumps(dict(launch=l,metrics=dict(tpot_us=[int(v) for v in x[l]])),separators=(',',':'))+'\n' for l in range(2*NB)))
                    open(d+'/history.csv','w').write(f'session,launch,fingerprint,tpot_us_mean,tpot_us_median\n0,0,{FP},{MU},{MU}\n')
                    if kind!='plain': open(d+'/calibration.csv','w').write(certificates[i%10])
                    real=np.log1p(delta) if name not in MEAN else MEAN[name] if delta else 0.
                    truth.write(json.dumps(dict(case=cid,model=name,size=size,true=float(real)))+'\n')
        truth.close()
        json.dump(dict(format='gate-replay/1',seed=seed,cases=ids,gate=dict(margin=.01,ceiling=.03,alpha=.02,beta=.015,looks=LOOKS,warmup_requests=20,max_blocks=NB,spending='pocock'),
                       metrics=dict(tpot_us=dict(kind='latency',better='lower',statistic='median'))),open(root+'/manifest.json','w'),indent=1)
        print(root,len(ids),'cases')
# of the model `typical`, 100 measured requests a launch (as gates/tpot.toml, quick); stragglers: a share of requests that takes
# 1.5 to 4 times as long in both arms. Sizes: nothing; 4 % of head's requests 1.8 times as long; at the margin and at the ceiling: all of
# head's requests longer by so much, or by slow ones (1.8 times) so much less of them within the bound.
STRAGGLERS=[('none',0.),('few',.002),('one',.01)]
SLOW=dict(tail=.04,margin_share=.01/1.01,ceiling_share=.03/1.03)
def tails(out,seed,cases):
    T=dict(margin=.1,ceiling=.5); made={}
    for name,share in STRAGGLERS:
        for size in ('0','tail','margin','ceiling','margin_share','ceiling_share'):
            for i in range(cases):
                g=Rng(seed_of(seed,'tails',name,size,i)); y,head=machine('typical',g,pairs(g),T.get(size,0.)); r=20+100
                x=within(g,2*NB,REQUESTS,r=r,pout=share,warm=.1,tau=3.)*np.exp(y)[:,None]*MU
                if size in SLOW: x*=np.where((g.u(2*NB,r)<SLOW[size])&head[:,None],1.8,1.)
                cid=hashlib.sha256(f'{seed}tails{name}{size}{i}'.encode()).hexdigest()[:12]; d=f'{out}/cases/{cid}'; os.makedirs(d,exist_ok=True)
                rows=[f"{l},{l//2},{l%2},{'pr' if head[l] else 'main'},{60+95*l},{FP},0,0\n" for l in range(2*NB)]
                open(d+'/launches.csv','w').write('launch,block,pos,arm,t_start_s,fingerprint,throttle_bits,exit\n'+''.join(rows))
                open(d+'/samples.jsonl','w').write(''.join(json.dumps(dict(launch=l,metrics=dict(tpot_us=[int(v) for v in np.rint(x[l])])),separators=(',',':'))+'\n' for l in range(2*NB)))
                open(d+'/history.csv','w').write(f'session,launch,fingerprint,tpot_us_mean,tpot_us_median\n')
                made[cid]=dict(case=cid,model=name,size=size)
    for statistic in ('median','mean','p95','p99','share'):
        how=dict(slo='1.5 ×') if statistic=='share' else dict(statistic=statistic); t=dict(margin=.01,ceiling=.03) if statistic=='share' else T
        root=f'{out}/{statistic}'; os.makedirs(root,exist_ok=True); os.path.lexists(root+'/cases') or os.symlink('../cases',root+'/cases')
        open(root+'/truth.jsonl','w').write(''.join(json.dumps(t)+'\n' for t in made.values()))
        json.dump(dict(format='gate-replay/1',seed=seed,cases=list(made),gate=dict(**t,alpha=.02,beta=.015,looks=LOOKS,warmup_requests=20,max_blocks=NB,spending='pocock'),
                       metrics=dict(tpot_us=dict(kind='latency',better='lower',**how))),open(root+'/manifest.json','w'),indent=1)
    print(out,len(made),'cases')
def score_tails(root,T,files):
    end='_share' if os.path.basename(os.path.normpath(root))=='share' else ''; sizes=('0','tail','margin'+end,'ceiling'+end)
    for f in files:
        V={v['case']:v for v in map(json.loads,open(f))}
        print(f'{os.path.basename(f)}\n%-9s'%'model'+''.join('%9s'%c for s in sizes for c in ('red '+s[:4],'pass','L')))
        for name,_ in STRAGGLERS:
            row=[]
            for size in sizes:
                of=[V[c] for c,t in T.items() if t['model']==name and t['size']==size and c in V]; n=max(1,len(of))
                row+=[100*sum(v['verdict']==x for v in of)/n for x in ('fail','pass')]+[sum(v['launches'] for v in of)/n]
            print('%-9s'%name+''.join('%9.1f'%x for x in row))
def score(root,files):
    T={}
    for l in open(root+'/truth.jsonl'): t=json.loads(l); T[t['case']]=t
    if any(t['size']=='tail' for t in T.values()): return score_tails(root,T,files)
    for f in files:
        V={v['case']:v for v in map(json.loads,open(f))}
        print(f'{os.path.basename(f)}\n%-9s'%'model'+''.join('%8s'%c for c in ('red 0','red 1','pass 3','finds 3','open 0','open 3','L 0','L 3','covers','pass 2','red 2')))
        for name in [m for m in MODELS if m in {t['model'] for t in T.values()}]:
            of=lambda size: [(t,V[c]) for c,t in T.items() if t['model']==name and t['size']==size and c in V]
            share=lambda g,v: 100*sum(x['verdict']==v for _,x in g)/max(1,len(g))
            mean=lambda g: sum(x['launches'] for _,x in g)/max(1,len(g))
            n,m,b,w=of('0'),of('1'),of('2'),of('3'); ci=[x['ci'][0]<=np.expm1(t['true'])<=x['ci'][1] for t,x in n+m+b+w if x.get('ci') and not (name in MEAN and t['size'] in '12')]
            row=[share(n,'fail'),share(m,'fail'),share(w,'pass'),share(w,'fail'),share(n,'inconclusive'),share(w,'inconclusive'),mean(n),mean(w),100*sum(ci)/max(1,len(ci)),share(b,'pass'),share(b,'fail')]
            print('%-9s'%name+''.join('%8.1f'%x for x in row)+(' invalid %d'%sum(x['verdict']=='invalid' for _,x in n+m+b+w) if any(x['verdict']=='invalid' for _,x in n+m+b+w) else ''))
if __name__=='__main__':
    p=argparse.ArgumentParser(); s=p.add_subparsers(dest='what',required=True)
    a=s.add_parser('make'); a.add_argument('out'); a.add_argument('--seed',type=int,default=27); a.add_argument('--cases',type=int,default=200); a.add_argument('--model',nargs='+',choices=MODELS,default=MODELS)
    a=s.add_parser('tails'); a.add_argument('out'); a.add_argument('--seed',type=int,default=28); a.add_argument('--cases',type=int,default=200)
    a=s.add_parser('score'); a.add_argument('set'); a.add_argument('verdicts',nargs='+')
    o=p.parse_args()
    if o.what=='score': score(o.set,o.verdicts)
    elif o.what=='make': make(o.out,o.seed,o.cases,o.model)
    else: tails(o.out,o.seed,o.cases)
